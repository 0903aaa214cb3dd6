//! How one file is treated: as the options say, or as the rule says that matches its path.

use shale_format::Category;

use crate::exec::build::Env;
use crate::plan::classes::ClassIndex;

/// The treatment of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// How its frames are compressed.
    pub(crate) class: ClassIndex,
    /// What it is taken for, whatever its bytes look like.
    pub(crate) category: Option<Category>,
    /// Store what is in its compressed streams.
    pub(crate) recompress: bool,
}

impl Treatment {
    /// The treatment of the file at `path`, as the source writes it.
    pub(crate) fn of(env: &Env<'_>, path: &[u8]) -> Self {
        let rules = &env.options.rules;
        let recompress = env.options.recompress.unwrap_or(false);
        let Some(index) = rules.find_index(path) else {
            return Self { class: 0, category: None, recompress };
        };
        let rule = &rules.all()[index];
        Self {
            class: env.plan.classes.of_rule(index),
            category: rule.category,
            recompress: rule.recompress.unwrap_or(recompress),
        }
    }

    /// Returns whether samples in the file are any bytes: it is taken for something without.
    pub(crate) fn ignores_samples(self) -> bool {
        let has_samples = |category| matches!(category, Category::Audio | Category::Sensor);
        self.category.is_some_and(|category| !has_samples(category))
    }
}
