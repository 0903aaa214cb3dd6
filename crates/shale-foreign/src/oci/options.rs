//! Which image is taken.

use std::sync::Arc;

use shale_model::Select;

/// Which image is taken of those that a layout has.
#[derive(Clone, Default)]
pub struct OciOptions {
    /// The tag: a name as `docker` and `skopeo` print it, or its part after the last colon.
    pub tag: Option<String>,
    /// The platform, such as `linux/arm64` or `linux/arm/v7`.
    pub platform: Option<String>,
    /// What is taken of the tree; everything if none is given.
    pub select: Option<Arc<dyn Select>>,
}
