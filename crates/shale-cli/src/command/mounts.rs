//! `shale mounts`.

use anyhow::Context;
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::report::Say;
use crate::text;

/// Lists the mounted images.
///
/// # Errors
/// The list of mounts cannot be read, or the list cannot be written.
pub fn run(say: &Say) -> anyhow::Result<Exit> {
    let mounts = shale_fuse::mounts().context("cannot read the list of mounts")?;
    let view = |is_kernel_view: bool| if is_kernel_view { "kernel" } else { "fuse" };
    if say.json {
        let object = |mount: &shale_fuse::MountedImage| {
            let mut object = Map::new();
            text::put_name(&mut object, "image", text::bytes(&mount.image));
            text::put_name(&mut object, "mount_point", text::bytes(mount.mount_point.as_os_str()));
            object.insert("view".into(), view(mount.is_kernel_view).into());
            Value::Object(object)
        };
        say.value(&mounts.iter().map(object).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    let mut out = String::new();
    for mount in &mounts {
        let image = text::escape(text::bytes(&mount.image));
        let mount_point = text::path(&mount.mount_point);
        out += &format!("{image} on {mount_point} ({})\n", view(mount.is_kernel_view));
    }
    say.raw(out.as_bytes())?;
    Ok(Exit::Done)
}
