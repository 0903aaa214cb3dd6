//! Promises of the models, held against streams of the real encoders.

mod inputs; // the inputs of the vectors
mod models; // every model writes what its encoder writes
mod streams; // streams of any encoder: rebuilt exactly, or refused
