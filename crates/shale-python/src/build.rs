//! Create, append, cut, merge, check and extract, as the package calls them.
//!
//! Options come as a dictionary that the package has filled, so that their defaults and their
//! documentation stand in one place. Results are dictionaries, too.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shale::read::{Identity, SnapshotChoice, TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale::write::Report;
use shale::{
    AppendOptions, Cancel, CheckLevel, CheckOptions, Choose, CreateOptions, ExtractOptions, Input,
    MergePart, Output, Overwrite, Patterns, Rules, Share, SourceOptions,
};

use crate::failure::failure;
use crate::source;
use crate::tree::{Image, Tree};
use crate::work::run;

/// (path, prefix in the image)
type SourceAt = (PathBuf, Option<Vec<u8>>);

/// (start, end, paths): an interval without `paths`, or only `paths` if there is no start.
type PyShare<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, Paths<'py>);
type Paths<'py> = Vec<Bound<'py, PyBytes>>;

/// Packs sources into an image.
#[pyfunction]
pub(crate) fn create<'py>(
    py: Python<'py>,
    sources: Vec<SourceAt>,
    output: PathBuf,
    options: &Bound<'py, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let cancel = Cancel::new();
    let options = create_options(options, &cancel)?;
    let inputs = inputs(sources);
    let made = run(py, &cancel, listener.as_ref(), |progress| {
        shale::create(&inputs, Output::Path(output), &options, progress)
    })?;
    let report = made.map_err(|error| failure(py, error))?;
    let result = build_report(py, &report.build)?;
    result.set_item("verified", report.verified.is_some())?;
    Ok(result)
}

/// Appends a snapshot to an image.
#[pyfunction]
pub(crate) fn append<'py>(
    py: Python<'py>,
    image: PathBuf,
    sources: Vec<SourceAt>,
    options: &Bound<'py, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let cancel = Cancel::new();
    let mut removes = Rules::default();
    for pattern in get::<Vec<Vec<u8>>>(options, "remove")? {
        removes.exclude(&pattern).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let removes = Arc::new(removes);
    let how = AppendOptions::default()
        .create(create_options(options, &cancel)?)
        .adds(get(options, "add")?)
        .removes(Arc::clone(&removes))
        .reads_all(get(options, "checksum")?)
        .message(get(options, "message")?)
        .waits(get(options, "wait")?);
    let inputs = inputs(sources);
    let made = run(py, &cancel, listener.as_ref(), |progress| {
        shale::append(&image, &inputs, &how, progress)
    })?;
    let report = made.map_err(|error| failure(py, error))?;
    let result = build_report(py, &report.build)?;
    let mut warnings = report.build.warnings.clone();
    for pattern in removes.unmatched() {
        warnings.push(format!("nothing to remove matches {}", pattern.escape_ascii()));
    }
    if report.is_unprotected {
        warnings.push("the parity of the image does not cover the new part".to_owned());
    }
    if report.is_signed {
        warnings.push("the signature is of the state before; sign the image again".to_owned());
    }
    result.set_item("warnings", warnings)?;
    result.set_item("verified", report.verified.is_some())?;
    result.set_item("snapshot", report.number)?;
    result.set_item("added_bytes", report.added_bytes)?;
    Ok(result)
}

/// Cuts source directories into shares of about `part_bytes`: (shares, entries, bytes, links). A
/// share is what the option `share` of [`create`] takes.
#[pyfunction]
#[allow(clippy::type_complexity)] // A record of Python.
pub(crate) fn cut<'py>(
    py: Python<'py>,
    sources: Vec<SourceAt>,
    part_bytes: u64,
    options: &Bound<'py, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<(Vec<PyShare<'py>>, u64, u64, u64)> {
    let cancel = Cancel::new();
    let options = create_options(options, &cancel)?.to_source();
    let inputs = inputs(sources);
    let made = run(py, &cancel, listener.as_ref(), |progress| {
        shale::cut(&inputs, &options, part_bytes, progress)
    })?;
    let made = made.map_err(|error| failure(py, error.into()))?;
    let bytes = |path: &Vec<u8>| PyBytes::new(py, path);
    let all = |paths: &HashSet<Vec<u8>>| {
        let mut paths: Vec<&Vec<u8>> = paths.iter().collect();
        paths.sort_unstable();
        paths.into_iter().map(bytes).collect()
    };
    let shares = made.shares.iter().map(|share| match share {
        Share::Interval { start, end, without } => {
            (Some(bytes(start)), end.as_ref().map(bytes), all(without))
        }
        Share::Paths { paths, .. } => (None, None, all(paths)),
    });
    Ok((shares.collect(), made.entries, made.bytes, made.links))
}

/// Merges trees of images, each (image, number of the snapshot, prefix), into a new image.
#[pyfunction]
pub(crate) fn merge<'py>(
    py: Python<'py>,
    parts: Vec<(Py<Image>, usize, Vec<u8>)>,
    keeps_snapshots: bool,
    output: PathBuf,
    options: &Bound<'py, PyDict>,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let cancel = Cancel::new();
    let options = create_options(options, &cancel)?;
    let parts = parts.into_iter().map(|(image, snapshot, prefix)| {
        MergePart::new(Arc::clone(&image.get().image))
            .snapshot(SnapshotChoice::Index(snapshot))
            .prefix(prefix)
    });
    let parts: Vec<MergePart> = parts.collect();
    let made = run(py, &cancel, listener.as_ref(), |progress| {
        shale::merge(&parts, keeps_snapshots, &output, &options, progress)
    })?;
    let report = made.map_err(|error| failure(py, error))?;
    let result = build_report(py, &report.build)?;
    result.set_item("verified", report.verified.is_some())?;
    Ok(result)
}

/// Checks an image.
#[pyfunction]
pub(crate) fn check<'py>(
    source: &Bound<'py, PyAny>,
    level: &str,
    expect: Option<&str>,
    threads: usize,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = source.py();
    let Some(level) = CheckLevel::ALL.into_iter().find(|known| known.name() == level) else {
        let known = CheckLevel::ALL.map(CheckLevel::name).join(", ");
        return Err(PyValueError::new_err(format!(
            "no level is called {level}; there are {known}"
        )));
    };
    let expect = match expect {
        Some(text) => Some(text.parse::<Identity>().map_err(PyValueError::new_err)?),
        None => None,
    };
    let source = source::open(source)?.source;
    let cancel = Cancel::new();
    let options =
        CheckOptions::default().level(level).expect(expect).threads(threads).cancel(cancel.clone());
    let made =
        run(py, &cancel, listener.as_ref(), |progress| shale::check(source, &options, progress))?;
    let report = made.map_err(|error| failure(py, error.into()))?;
    let result = PyDict::new(py);
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let damaged: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64)> = report
        .damaged_paths
        .iter()
        .map(|of| (PyBytes::new(py, &of.snapshot), PyBytes::new(py, &of.path), of.damaged_bytes))
        .collect();
    result.set_item("problems", problems)?;
    result.set_item("problem_count", report.problem_count)?;
    result.set_item("damaged_paths", damaged)?;
    result.set_item("damaged_path_count", report.damaged_path_count)?;
    result.set_item("frames", report.checked.frames)?;
    result.set_item("plain_bytes", report.checked.plain_bytes)?;
    result.set_item("identity", report.identity.map(|identity| identity.to_string()))?;
    Ok(result)
}

/// Extracts what patterns choose, or all of a tree, into a directory.
#[pyfunction]
pub(crate) fn extract<'py>(
    py: Python<'py>,
    tree: &Tree,
    target: PathBuf,
    patterns: Vec<Vec<u8>>,
    overwrite: bool,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let cancel = Cancel::new();
    let patterns =
        Patterns::new(&patterns).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let options = ExtractOptions::default()
        .patterns(patterns)
        .overwrite(if overwrite { Overwrite::Always } else { Overwrite::Refuse })
        .cancel(cancel.clone());
    let made = run(py, &cancel, listener.as_ref(), |progress| {
        shale::extract(&tree.tree, &target, &options, progress)
    })?;
    let report = made.map_err(|error| match error {
        shale::ExtractError::TargetsExist { .. } => {
            pyo3::exceptions::PyFileExistsError::new_err((17, error.to_string()))
        }
        error => failure(py, error.into()),
    })?;
    let result = PyDict::new(py);
    let problems: Vec<(Bound<'py, PyBytes>, String)> = report
        .problems
        .iter()
        .map(|problem| (PyBytes::new(py, &problem.path), problem.kind.to_string()))
        .collect();
    result.set_item("problems", problems)?;
    result.set_item("problem_count", report.problem_count)?;
    Ok(result)
}

fn inputs(sources: Vec<SourceAt>) -> Vec<Input> {
    let input = |(path, prefix): SourceAt| Input { prefix, ..Input::from(&path) };
    sources.into_iter().map(input).collect()
}

fn create_options(options: &Bound<'_, PyDict>, cancel: &Cancel) -> PyResult<CreateOptions> {
    let mut rules = Rules::default();
    for line in get::<Vec<Vec<u8>>>(options, "rules")? {
        rules.add(&line).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    let mut times_kept = 0;
    for name in get::<Vec<String>>(options, "times")? {
        times_kept |= match name.as_str() {
            "mtime" => TIME_MTIME,
            "atime" => TIME_ATIME,
            "ctime" => TIME_CTIME,
            "btime" => TIME_BTIME,
            _ => return Err(PyValueError::new_err(format!("no time is called {name}"))),
        };
    }
    let mut build = shale::write::Options::default();
    if let Some(level) = get::<Option<u8>>(options, "level")? {
        build.level = level;
    }
    build.threads = get(options, "threads")?;
    build.memory_bytes_max = get(options, "memory")?;
    build.recompress = get(options, "recompress")?;
    build.skip_unreadable = get(options, "skip_unreadable")?;
    build.strict = get(options, "strict")?;
    build.snapshot_name = get(options, "snapshot")?;
    build.label = get(options, "label")?;
    build.temp_dir = get(options, "temp_dir")?;
    build.times_kept = times_kept;
    build.cancel = Some(cancel.flag());
    let mut choose = Choose { rules: Arc::new(rules), ..Choose::default() };
    let share = get::<Option<(Option<Vec<u8>>, Option<Vec<u8>>, Vec<Vec<u8>>)>>(options, "share")?;
    choose.share = share.map(|share| {
        Arc::new(match share {
            (None, _, paths) => Share::paths(paths),
            (Some(start), end, without) => {
                Share::Interval { start, end, without: without.into_iter().collect() }
            }
        })
    });
    let source = SourceOptions::default().choose(choose).replace(get(options, "replace")?);
    Ok(CreateOptions::default()
        .build(build)
        .source(source)
        .verify(get(options, "verify")?)
        .parity_ppm(get(options, "parity_ppm")?)
        .overwrite(get(options, "overwrite")?)
        .cancel(cancel.clone()))
}

/// An option. One that is missing is a fault of the package.
fn get<'py, T: FromPyObjectOwned<'py>>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let found = options.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    found.extract::<T>().map_err(Into::into)
}

fn build_report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    let left_out: Vec<(Bound<'py, PyBytes>, String)> = report
        .problems
        .iter()
        .map(|problem| (PyBytes::new(py, &problem.path), problem.kind.to_string()))
        .collect();
    let changed: Vec<(Bound<'py, PyBytes>, String)> = report
        .changes
        .iter()
        .map(|change| (PyBytes::new(py, &change.path), change.kind.to_string()))
        .collect();
    result.set_item("entries", report.entries.total)?;
    result.set_item("files", report.entries.files)?;
    result.set_item("file_bytes", report.file_bytes)?;
    result.set_item("image_bytes", report.image_bytes)?;
    result.set_item("identity", report.identity.to_string())?;
    result.set_item("left_out", left_out)?;
    result.set_item("changed", changed)?;
    result.set_item("warnings", report.warnings.clone())?;
    Ok(result)
}
