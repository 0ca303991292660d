//! ONNX as a graph: reading, finding attention, adding outputs, writing. Pure mathematics: knows no model directory,
//! text or editor.
