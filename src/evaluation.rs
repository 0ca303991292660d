//! Detectors and explanation methods over whole datasets: results of single functions in, tables out.
