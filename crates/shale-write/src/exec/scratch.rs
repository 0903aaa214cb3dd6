//! What a thread keeps from one task to the next: encoders with their tables, and buffers.

use shale_codec::{Encoder, Settings};

use crate::plan::error::WriteError;

/// Encoders and buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct EncoderScratch {
    /// One for each of the settings used so far.
    encoders: Vec<Encoder>,
    /// Room for the prefix of a frame.
    pub(crate) prefix: Vec<u8>,
    /// Room for a frame after a filter.
    pub(crate) filtered: Vec<u8>,
}

impl EncoderScratch {
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
                self.encoders.push(Encoder::new(settings)?);
                self.encoders.len() - 1
            }
        };
        Ok(&mut self.encoders[index])
    }
}
