//! `--order` and `--hot`: in which order contents are laid.

use std::path::PathBuf;

use anyhow::bail;
use shale::write::Order;

use crate::exit::Misuse;
use crate::input;

/// What `--order` says.
#[derive(Debug, Clone)]
pub enum LayingChoice {
    /// One of the orders that need no list.
    Known(Order),
    /// What a file lists comes first.
    Explicit(PathBuf),
}

/// Takes `--order` apart.
///
/// # Errors
/// There is no such order.
pub fn parse(word: &str) -> Result<LayingChoice, String> {
    if let Some(file) = word.strip_prefix("explicit:") {
        return Ok(LayingChoice::Explicit(file.into()));
    }
    let orders = [Order::Similarity, Order::Path, Order::ReversePath, Order::Source];
    let found = orders.into_iter().find(|order| order.to_string() == word);
    let allowed = "similarity, path, revpath, none or explicit:FILE";
    found.map(LayingChoice::Known).ok_or_else(|| format!("there are {allowed}"))
}

/// The order, and what is laid before all others.
///
/// # Errors
/// A list cannot be read, or two say what comes first.
pub fn laying(
    order: Option<&LayingChoice>,
    hot: Option<&PathBuf>,
) -> anyhow::Result<(Option<Order>, Vec<Vec<u8>>)> {
    Ok(match (order, hot) {
        (Some(LayingChoice::Explicit(_)), Some(_)) => {
            let what =
                "--order explicit:FILE and --hot both say what comes first; take one of them";
            bail!(Misuse(what.to_owned()))
        }
        (Some(LayingChoice::Explicit(file)), None) => {
            (Some(Order::Source), input::path_list(file)?)
        }
        (Some(LayingChoice::Known(order)), None) => (Some(*order), Vec::new()),
        (Some(LayingChoice::Known(order)), Some(file)) => (Some(*order), input::path_list(file)?),
        (None, Some(file)) => (None, input::path_list(file)?),
        (None, None) => (None, Vec::new()),
    })
}
