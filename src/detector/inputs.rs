//! Which inputs and outputs of a graph are which, and what a run fills them with.

use super::directory::Config;
use super::session::{Element, Feed};
use crate::graph::Graph;
use crate::graph::onnx::tensor_proto::DataType;
use crate::tokens::Tokenizer;

/// What an input of the graph is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    Ids,
    Ones,
    Zeros,
    /// Consecutive positions from this one on.
    Positions(i64),
    /// The same, where all padding has the position before the first.
    PositionsBehindPadding(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) filling: Filling,
    /// Declared for one function a run.
    pub(super) single: bool,
}

/// A function as token ids, padded where it is shorter than others of its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub ids: Vec<u32>,
    /// How many of the ids are no padding; the attention mask hides the others.
    pub real: usize,
}

impl Row {
    pub fn unpadded(ids: &[u32]) -> Row {
        Row { ids: ids.to_vec(), real: ids.len() }
    }
}

/// Inputs of a run over several functions; their rows are equally long.
pub(super) fn feeds_of<'a>(inputs: &'a [Input], rows: &[Row]) -> Vec<Feed<'a>> {
    let tokens = rows.first().map_or(0, |row| row.ids.len());
    let of_rows = |of: &dyn Fn(&Row, usize) -> f64| {
        rows.iter().flat_map(|row| (0..tokens).map(|place| of(row, place)).collect::<Vec<_>>()).collect()
    };
    let feed = |input: &'a Input| Feed {
        name: &input.name,
        element: &input.element,
        shape: vec![rows.len(), tokens],
        values: match input.filling {
            Filling::Ids => of_rows(&|row, place| f64::from(row.ids[place])),
            Filling::Ones => of_rows(&|row, place| if place < row.real { 1.0 } else { 0.0 }),
            Filling::Zeros => of_rows(&|_, _| 0.0),
            Filling::PositionsBehindPadding(first) => of_rows(&|row, place| match place < row.real {
                true => (first + place as i64) as f64,
                false => (first - 1) as f64,
            }),
            Filling::Positions(first) => of_rows(&|_, place| (first + place as i64) as f64),
        },
    };
    inputs.iter().map(feed).collect()
}

/// The input that holds the token ids: the one named input_ids, else the only one of integers `[batch, tokens]` whose
/// name does not say that it is something else.
pub(super) fn ids_input(graph: &Graph) -> Result<String, String> {
    let names: Vec<&str> = graph.inputs().map(|input| input.name()).collect();
    if names.contains(&"input_ids") {
        return Ok("input_ids".to_string());
    }
    let found: Vec<&str> = graph
        .inputs()
        .filter(|input| {
            let name = input.name().to_lowercase();
            !["mask", "type", "segment", "position", "decoder"].iter().any(|word| name.contains(word))
        })
        .filter(|input| match input.tensor_type() {
            Some((DataType::Int64 | DataType::Int32, dimensions)) => dimensions.is_none_or(|d| d.len() == 2),
            _ => false,
        })
        .map(|input| input.name())
        .collect();
    match found.as_slice() {
        [only] => Ok(only.to_string()),
        _ => Err(format!(
            "expected an input named input_ids, or exactly one other of integers [batch, tokens], found {} such among the inputs {}",
            found.len(),
            names.join(", ")
        )),
    }
}

pub(super) fn inputs(graph: &Graph, ids: &str, config: &Config) -> Result<Vec<Input>, String> {
    let mut inputs = Vec::new();
    for input in graph.inputs() {
        let name = input.name();
        let lower = name.to_lowercase();
        let filling = if name == ids {
            Filling::Ids
        } else if lower.starts_with("decoder") {
            return Err(format!(
                "input \"{name}\" belongs to a decoder, expected a classifier that needs the code only: export the model with the decoder's input computed inside the graph"
            ));
        } else if lower.contains("mask") && !lower.contains("global") {
            Filling::Ones
        } else if lower.contains("type") || lower.contains("segment") {
            Filling::Zeros
        } else if lower.contains("position") {
            match (config.is_roberta(), config.model_type.as_deref()) {
                // Padding's own position comes first.
                (true, _) => Filling::PositionsBehindPadding(config.pad_token_id.unwrap_or(1) + 1),
                (
                    false,
                    Some("bert" | "electra" | "albert" | "distilbert" | "deberta" | "deberta-v2" | "gpt2"),
                ) => Filling::Positions(0),
                _ => {
                    return Err(format!(
                        "input \"{name}\" asks for positions, and config.json names no model_type that says where they start: export the model without this input"
                    ));
                }
            }
        } else {
            return Err(format!(
                "input \"{name}\" is unknown, expected only token ids (\"{ids}\"), attention_mask, token_type_ids and position_ids: export the model without it"
            ));
        };
        let (element, dimensions) = match input.tensor_type() {
            Some((DataType::Int64, dimensions)) => (Element::Int64, dimensions),
            Some((DataType::Int32, dimensions)) => (Element::Int32, dimensions),
            Some((DataType::Bool, dimensions)) if filling == Filling::Ones => (Element::Bool, dimensions),
            Some((DataType::Float, dimensions)) if filling == Filling::Ones => (Element::Float, dimensions),
            other => {
                let found = other.map_or("no tensor".to_string(), |(t, _)| t.as_str_name().to_lowercase());
                return Err(format!("input \"{name}\": expected int64 or int32, found {found}"));
            }
        };
        let single = dimensions.as_ref().is_some_and(|dimensions| dimensions.first() == Some(&Some(1)));
        if let Some(dimensions) = dimensions {
            match dimensions.as_slice() {
                &[batch, tokens] => {
                    if let Some(batch) = batch.filter(|&batch| batch != 1) {
                        return Err(format!(
                            "input \"{name}\": expected a batch of any size, found the fixed size {batch}: export the model with dynamic axes"
                        ));
                    }
                    if let Some(tokens) = tokens {
                        return Err(format!(
                            "input \"{name}\": expected any number of tokens, found the fixed number {tokens}: export the model with dynamic axes"
                        ));
                    }
                }
                other => {
                    return Err(format!(
                        "input \"{name}\": expected the shape [batch, tokens], found {} dimensions",
                        other.len()
                    ));
                }
            }
        }
        inputs.push(Input { name: name.to_string(), element, filling, single });
    }
    Ok(inputs)
}

/// Token types are filled with zeros, so a tokenizer that gives others would not be followed.
pub(super) fn check_token_types(inputs: &[Input], tokenizer: &Tokenizer) -> Result<(), String> {
    let types = inputs.iter().find(|input| input.filling == Filling::Zeros);
    match (types, tokenizer.other_token_type()) {
        (Some(input), Some(found)) => Err(format!(
            "input \"{}\": the tokenizer gives some tokens of a single text the type {found}, expected 0 for all: export the model without this input, the types computed inside the graph",
            input.name
        )),
        _ => Ok(()),
    }
}

/// The output that `detector.toml` names as the model's own relevance: floats `[batch, tokens]`, as far as the file says
/// so (a trial run tells the rest).
pub(super) fn relevance_output(graph: &Graph, declared: &str) -> Result<String, String> {
    let Some(output) = graph.outputs().iter().find(|output| output.name() == declared) else {
        return Err(format!(
            "relevance: expected one of the outputs {}, found \"{declared}\"",
            all_outputs(graph)
        ));
    };
    let wrong = |found: String| {
        Err(format!(
            "relevance: expected an output of floats [batch, tokens], found \"{declared}\" with {found}"
        ))
    };
    match output.tensor_type() {
        Some((data_type, _)) if !is_float(data_type) => {
            wrong(format!("elements of the type {}", data_type.as_str_name().to_lowercase()))
        }
        Some((_, Some(dimensions))) if dimensions.len() != 2 => {
            wrong(format!("{} dimensions", dimensions.len()))
        }
        _ => Ok(declared.to_string()),
    }
}

fn is_float(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Float16 | DataType::Bfloat16 | DataType::Double)
}

fn all_outputs(graph: &Graph) -> String {
    let describe = |output: &crate::graph::onnx::ValueInfoProto| match output.tensor_type() {
        Some((_, Some(dimensions))) => format!("{} ({} dimensions)", output.name(), dimensions.len()),
        _ => output.name().to_string(),
    };
    graph.outputs().iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The output that holds the verdict; `relevance` is one that does not.
pub(super) fn choose_output(
    graph: &Graph,
    declared: Option<&str>,
    relevance: Option<&str>,
) -> Result<String, String> {
    let all = || all_outputs(graph);
    if let Some(name) = declared {
        if relevance == Some(name) {
            return Err(format!(
                "logits and relevance name the same output \"{name}\", expected two of {}",
                all()
            ));
        }
        return match graph.outputs().iter().any(|output| output.name() == name) {
            true => Ok(name.to_string()),
            false => Err(format!("logits: expected one of the outputs {}, found \"{name}\"", all())),
        };
    }
    if relevance != Some("logits") && graph.outputs().iter().any(|output| output.name() == "logits") {
        return Ok("logits".to_string());
    }
    let usable: Vec<&str> = graph
        .outputs()
        .iter()
        .filter(|output| relevance != Some(output.name()))
        .filter(|output| match output.tensor_type() {
            Some((data_type, dimensions)) => {
                is_float(data_type) && dimensions.is_none_or(|d| matches!(d.len(), 1 | 2))
            }
            None => true,
        })
        .map(|output| output.name())
        .collect();
    match (usable.as_slice(), relevance) {
        ([only], _) => Ok(only.to_string()),
        ([], Some(relevance)) => Err(format!(
            "relevance names \"{relevance}\", and then no output is left that could hold the verdict, expected an output of floats [batch, tokens] beside it, found only {}",
            all()
        )),
        _ => Err(format!(
            "expected an output named logits or exactly one of floats [batch, labels], found {} such among the outputs {}; name it with logits = \"…\" in detector.toml",
            usable.len(),
            all()
        )),
    }
}
