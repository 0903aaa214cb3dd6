//! What kernel and driver agreed on for one mount, for `shale mount -v`.

use std::fmt;

/// What kernel and driver agreed on for one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// Protocol version of the kernel.
    pub kernel_version: (u32, u32),
    /// Threads that answer requests.
    pub thread_count: usize,
    /// Each thread reads requests from its own device handle.
    pub device_per_thread: bool,
    /// Longest read the kernel may ask for, in bytes.
    pub read_len_max: u32,
    /// Bytes the kernel reads ahead in a file that is read sequentially.
    pub read_ahead_len: u64,
    /// Files up to this length are put into the page cache before the kernel asks for them; 0 if
    /// none are.
    pub push_len_max: u64,
    /// The optional features that the driver asked for.
    pub features: Vec<Feature>,
    /// A summary of the kernel view, if the mount is one.
    pub kernel_view: Option<String>,
}

/// One optional feature that the driver asked for, and the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Short name.
    pub name: &'static str,
    /// What it does.
    pub effect: &'static str,
    /// Whether it is in force, or why not.
    pub state: FeatureState,
}

/// Whether a feature is in force, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureState {
    /// In force.
    On,
    /// This kernel does not support it.
    NotInKernel,
    /// Nothing in the image needs it.
    NotNeeded,
    /// It conflicts with something in the image.
    NotWithImage,
}

impl Negotiated {
    /// Returns whether the feature called `name` is in force.
    pub fn has(&self, name: &str) -> bool {
        self.features.iter().any(|f| f.name == name && f.state == FeatureState::On)
    }
}

impl fmt::Display for Negotiated {
    /// Writes one line for each value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.kernel_version;
        let handles = if self.device_per_thread { "one device handle each" } else { "one handle" };
        match &self.kernel_view {
            None => writeln!(f, "view: fuse")?,
            Some(summary) => writeln!(f, "view: kernel, {summary}")?,
        }
        writeln!(f, "transport: /dev/fuse, kernel protocol {major}.{minor}")?;
        writeln!(f, "threads: {}, {handles}", self.thread_count)?;
        writeln!(f, "longest read: {} KiB", self.read_len_max >> 10)?;
        writeln!(f, "read-ahead: {} KiB", self.read_ahead_len >> 10)?;
        match self.push_len_max {
            0 => write!(f, "pushing: off")?,
            len_max => write!(f, "pushing: files up to {} KiB", len_max.div_ceil(1024))?,
        }
        for feature in &self.features {
            let state = match feature.state {
                FeatureState::On => "on",
                FeatureState::NotInKernel => "not in this kernel",
                FeatureState::NotNeeded => "not needed by this image",
                FeatureState::NotWithImage => "not with this image",
            };
            write!(f, "\n{}: {state} ({})", feature.name, feature.effect)?;
        }
        Ok(())
    }
}
