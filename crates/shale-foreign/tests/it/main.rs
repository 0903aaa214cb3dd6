//! Tests of importers and exporters, a module for each subject.

mod common; // taking everything from a source, and archives made byte by byte
mod formats; // formats are recognised, and named where they are not supported
mod tar; // tar
mod rar; // RAR
mod zip; // zip
mod made; // what other programs make of a tree comes as that tree
mod wrapped; // cabinets and xar archives, made byte by byte
mod deep; // depth costs no more than bytes
