//! What a thread keeps from one task to the next: encoders with their tables, and buffers.

use shale_codec::{Encoder, Settings};

use crate::plan::error::WriteError;

/// Encoders and buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct EncoderScratch {
    /// One for each of the settings used so far, or only the last.
    encoders: Vec<Encoder>,
    keeps_one: bool,
    /// Room for the prefix of a frame.
    pub(crate) prefix: Vec<u8>,
    /// Room for a frame after a filter.
    pub(crate) filtered: Vec<u8>,
}

impl EncoderScratch {
    /// Keeps the encoders of all settings, or, where memory is little, only that of the last.
    pub(crate) fn new(keeps_encoders: bool) -> Self {
        Self { keeps_one: !keeps_encoders, ..Self::default() }
    }

    /// Compresses `plain` after `prefix`.
    pub(crate) fn encode(
        &mut self,
        settings: Settings,
        prefix: &[u8],
        plain: &[u8],
    ) -> Result<Vec<u8>, WriteError> {
        let mut out = Vec::new();
        self.encoder(settings)?.encode(prefix, plain, &mut out)?;
        Ok(out)
    }

    /// The encoder for these settings, made on first use.
    pub(crate) fn encoder(&mut self, settings: Settings) -> Result<&mut Encoder, WriteError> {
        let index = match self.encoders.iter().position(|e| *e.settings() == settings) {
            Some(index) => index,
            None => {
                if self.keeps_one {
                    self.encoders.clear();
                }
                self.encoders.push(Encoder::new(settings)?);
                self.encoders.len() - 1
            }
        };
        Ok(&mut self.encoders[index])
    }
}
