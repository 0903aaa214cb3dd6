//! Images that are encrypted with age: the keys of the command line, files that open with them, and
//! outputs that are encrypted.
//!
//! A file is recognised by its first bytes, whatever its name. Keys are read when the first one is
//! needed; those of options also at the start, so that a wrong one is reported at once.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, bail};
use shale::read::files::Place;
use shale::read::{ByteSource, FileSource};
use shale::{CreateOptions, Enclosing, Envelope};
use shale_age::{Decrypted, Encrypting, Identities, Passphrase, Recipients, is_encrypted};

use crate::args::{AgeArgs, EncryptArgs, Target};
use crate::exit::Misuse;
use crate::text;

/// Bytes that are read of a file of keys at most.
const KEYS_LEN_MAX: u64 = 1 << 20;
/// Bytes of a passphrase at most, as for passwords of archives.
const PASSPHRASE_LEN_MAX: u64 = 4096;

/// The options of the command line.
static OPTIONS: OnceLock<AgeArgs> = OnceLock::new();
static KEYS: OnceLock<Identities> = OnceLock::new();

/// Takes the options of the command line.
///
/// # Errors
/// A file of keys cannot be read or is not valid.
pub fn set(args: &AgeArgs) -> anyhow::Result<()> {
    let _ = OPTIONS.set(args.clone());
    if !args.identity.is_empty() || args.passphrase_file.is_some() {
        keys()?;
    }
    Ok(())
}

/// The options that were set, as words of a command line.
pub fn words() -> Vec<OsString> {
    OPTIONS.get().map(AgeArgs::words).unwrap_or_default()
}

/// The keys of the options; without these, those of the environment.
fn keys() -> anyhow::Result<&'static Identities> {
    if let Some(keys) = KEYS.get() {
        return Ok(keys);
    }
    let args = OPTIONS.get().cloned().unwrap_or_default();
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (mut files, mut from) = (args.identity, "--identity");
    if files.is_empty() {
        let named = variable("SHALE_IDENTITY").unwrap_or_default();
        files = std::env::split_paths(&named).filter(|it| !it.as_os_str().is_empty()).collect();
        from = "SHALE_IDENTITY";
    }
    let mut keys = Identities::default();
    for path in &files {
        let what = || format!("{from} {}", text::path(path));
        keys.add_file(&read(path, KEYS_LEN_MAX).with_context(what)?).with_context(what)?;
    }
    let passphrase = args.passphrase_file.map(|path| ("--passphrase-file", path));
    let named = || Some(("SHALE_PASSPHRASE_FILE", variable("SHALE_PASSPHRASE_FILE")?.into()));
    let passphrase: Option<(&str, PathBuf)> = passphrase.or_else(named);
    if let Some((from, path)) = passphrase {
        let bytes = read(&path, PASSPHRASE_LEN_MAX)
            .with_context(|| format!("{from} {}", text::path(&path)))?;
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        keys.add_passphrase(Passphrase::new(line.strip_suffix(b"\r").unwrap_or(line)));
    }
    Ok(KEYS.get_or_init(|| keys))
}

fn read(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file that may be encrypted: returns the plain bytes of one that is, and any other one as
/// it is.
///
/// # Errors
/// It is encrypted, and no key opens it, or it is damaged or truncated.
pub fn opened(file: Arc<dyn ByteSource>) -> anyhow::Result<Arc<dyn ByteSource>> {
    // What cannot be read is reported by who reads it.
    if !is_encrypted(&*file).unwrap_or(false) {
        return Ok(file);
    }
    Ok(Arc::new(Decrypted::open(file, keys()?)?))
}

/// True if an error says that an encrypted file is not as it was written.
pub fn is_damage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().and_then(|it| it.downcast_ref()).is_some_and(damages),
        None => cause.downcast_ref().is_some_and(damages),
    })
}

fn damages(error: &shale_age::Error) -> bool {
    error.is_damage()
}

/// True if the file at `path` is encrypted.
pub fn is_sealed(path: &Path) -> bool {
    path.is_file() && FileSource::open(path).is_ok_and(|file| is_encrypted(&file).unwrap_or(false))
}

/// Refuses an encrypted image, for a command that changes its file or needs it plain.
///
/// # Errors
/// The file at `path` is encrypted.
pub fn only_plain(path: &Path, command: &str) -> anyhow::Result<()> {
    match is_sealed(path) {
        true => Err(Misuse(format!(
            "{}: `{command}` needs a plain image, and this one is encrypted; decrypt it with `age \
             -d` first, and encrypt the result again",
            text::path(path)
        ))
        .into()),
        false => Ok(()),
    }
}

/// True if an input of a build is an encrypted image: it opens with a key of the command line, or
/// is named like one. Any other encrypted file is packed as it is.
///
/// # Errors
/// It is an encrypted image, and no key opens it, or it is damaged.
pub fn is_image(path: &Path) -> anyhow::Result<bool> {
    let is_named = text::bytes(path.as_os_str()).ends_with(b".shale.age");
    if !is_sealed(path) || (!is_named && keys()?.is_empty()) {
        return Ok(false);
    }
    let plain = match FileSource::open(path).map_err(Into::into).and_then(|it| opened(Arc::new(it)))
    {
        Ok(plain) => plain,
        Err(error) if is_named => return Err(error),
        Err(_) => return Ok(false),
    };
    let mut head = [0; 8];
    Ok(is_named || (plain.read_at(0, &mut head).is_ok() && &head == b"\x8bSHALE\r\n"))
}

/// A place whose files may be encrypted. Where `NAME` is missing, `NAME.age` is used.
pub struct SealedPlace {
    place: Arc<dyn Place>,
    /// The place of the same name with `.age`, for places beside a file and in a directory.
    sealed: Option<Arc<dyn Place>>,
}

impl SealedPlace {
    /// The place of a file that a user names.
    pub fn new(place: Arc<dyn Place>) -> Self {
        Self { place, sealed: None }
    }
}

impl Place for SealedPlace {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        let found = self.place.open();
        let found = match (found, &self.sealed) {
            (Err(error), Some(sealed)) => sealed.open().map_err(|_| error)?,
            (found, _) => found?,
        };
        opened(found).map_err(|error| match error.downcast::<shale_age::Error>() {
            Ok(error) => error.into(),
            Err(error) => io::Error::other(format!("{error:#}")),
        })
    }

    fn name(&self) -> Vec<u8> {
        let name = self.place.name();
        // The parts of a split image are counted by their names.
        name.strip_suffix(b".age").map(<[u8]>::to_vec).unwrap_or(name)
    }

    fn beside(&self, name: &[u8]) -> Arc<dyn Place> {
        let sealed = Some(self.place.beside(&[name, b".age"].concat()));
        Arc::new(Self { place: self.place.beside(name), sealed })
    }

    fn inside(&self, name: &[u8]) -> Option<Arc<dyn Place>> {
        let place = self.place.inside(name)?;
        Some(Arc::new(Self { place, sealed: self.place.inside(&[name, b".age"].concat()) }))
    }

    fn shown(&self) -> String {
        self.place.shown()
    }

    fn key(&self) -> String {
        self.place.key()
    }
}

/// Encrypts outputs.
pub struct Encrypted(Recipients);

impl Encrypted {
    /// Encrypts to those whom the command line names; `None` if it names nobody.
    ///
    /// # Errors
    /// A recipient or a file of them is not valid.
    pub fn new(args: &EncryptArgs) -> anyhow::Result<Option<Self>> {
        let mut recipients = Recipients::default();
        for text in &args.age {
            recipients.add(text).context("--age").map_err(Misuse::of)?;
        }
        for path in &args.age_recipients_file {
            let what = || format!("--age-recipients-file {}", text::path(path));
            let bytes = read(path, KEYS_LEN_MAX).with_context(what)?;
            recipients.add_file(&String::from_utf8_lossy(&bytes)).with_context(what)?;
        }
        Ok((!recipients.is_empty()).then_some(Self(recipients)))
    }

    /// Encrypts a stream.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn stream<W: Write>(&self, out: W) -> io::Result<Encrypting<W>> {
        Ok(Encrypting::new(out, &self.0)?)
    }
}

/// Encrypts the output of a build if the command line asks for that. The parity that an image gets
/// because its source has some is left out then.
///
/// # Errors
/// A recipient is not valid, or other options do not go with it.
pub fn enclose(target: &Target, options: &mut CreateOptions) -> anyhow::Result<()> {
    let Some(encrypted) = Encrypted::new(&target.encrypt)? else { return Ok(()) };
    if target.parity.is_some_and(|parity| parity > 0) || target.pad {
        bail!(Misuse(
            "--parity and --pad are for plain images and do not go with --age".to_owned()
        ));
    }
    options.parity_ppm = 0;
    options.envelope = Some(Arc::new(encrypted));
    Ok(())
}

/// Refuses to encrypt, for outputs that cannot be encrypted on their way.
///
/// # Errors
/// The command line asks for that.
pub fn refuse(target: &Target, what: &str) -> anyhow::Result<()> {
    let args = &target.encrypt;
    match args.age.is_empty() && args.age_recipients_file.is_empty() {
        true => Ok(()),
        false => Err(Misuse(format!(
            "{what} cannot be encrypted while it is written; leave out --age, and use `age -r`"
        ))
        .into()),
    }
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encrypted(..)")
    }
}

impl Envelope for Encrypted {
    fn begin(&self, file: File) -> io::Result<Box<dyn Enclosing>> {
        let again = file.try_clone()?;
        Ok(Box::new(Enclosed { out: Encrypting::new(BufWriter::new(file), &self.0)?, again }))
    }
}

/// An image that is encrypted into a file.
struct Enclosed {
    out: Encrypting<BufWriter<File>>,
    again: File,
}

impl Write for Enclosed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Enclosing for Enclosed {
    fn finish(self: Box<Self>) -> io::Result<Arc<dyn ByteSource>> {
        let key = self.out.key();
        self.out.finish()?.flush()?;
        let file = Arc::new(FileSource::new(self.again)?);
        Ok(Arc::new(Decrypted::with_key(file, &key)?))
    }
}
