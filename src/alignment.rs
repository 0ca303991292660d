//! How far the lines that drove a prediction are the lines that are really vulnerable.
