//! Small ONNX detectors with seeded random weights, and the same mathematics in plain Rust.
//!
//! `write_model_dir(dir, &ModelOptions::default())` makes a complete model directory in a few milliseconds.

// Each test program uses a part of this.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use super::tokenizer;
use linelens::graph::onnx::tensor_proto::{DataLocation, DataType};
use linelens::graph::onnx::{ModelProto, StringStringEntryProto};
use linelens::graph::{Graph, Weights, float_attribute, int_attribute, ints_attribute, tensor};
use prost::Message;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;

/// How attention is written down in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[batch, heads, queries, keys]`, as models export it.
    RankFour,
    /// `[heads, queries, keys]`, for a batch of one.
    RankThree,
    /// No attention at all: the mean of the embeddings is classified.
    Absent,
}

#[derive(Clone, Debug)]
pub struct ModelOptions {
    pub layers: usize,
    pub hidden: usize,
    /// Width of the feed-forward layers, in widths of the hidden ones.
    pub inner: usize,
    pub heads: usize,
    /// Rows of the word table; the test tokenizer has 276 tokens.
    pub vocab: usize,
    /// Rows of the position table; RoBERTa's first two are not used.
    pub positions: usize,
    pub labels: usize,
    /// Int64 or Int32.
    pub ids: DataType,
    pub token_types: bool,
    /// The output holds probabilities in place of logits.
    pub probabilities: bool,
    /// Weights in `model.onnx.data`.
    pub external: bool,
    pub attention: Shape,
    /// Weights and computation in half precision.
    pub half: bool,
    /// A decoder layer that attends to the encoder, with its tokens from the same word table.
    pub decoder: bool,
    /// Added to the logit of the last label, "vulnerable": 20.0 flags everything, -20.0 nothing.
    pub bias: f32,
    pub seed: u64,
}

impl Default for ModelOptions {
    fn default() -> Self {
        ModelOptions {
            layers: 2,
            hidden: 16,
            inner: 2,
            heads: 2,
            vocab: 300,
            positions: 130,
            labels: 2,
            ids: DataType::Int64,
            token_types: false,
            probabilities: false,
            external: false,
            attention: Shape::RankFour,
            half: false,
            decoder: false,
            bias: 0.0,
            seed: 7,
        }
    }
}

/// A model and its weights.
pub struct TinyModel {
    pub options: ModelOptions,
    /// The model file, with its weights inside.
    pub bytes: Vec<u8>,
    weights: HashMap<String, Vec<f32>>,
}

/// Writes model.onnx, tokenizer.json and config.json.
pub fn write_model_dir(dir: &Path, options: &ModelOptions) -> TinyModel {
    let model = TinyModel::new(options);
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("tokenizer.json"), tokenizer::byte_level_bpe()).unwrap();
    std::fs::write(dir.join("config.json"), config_json(options).to_string()).unwrap();
    if options.external {
        let (bytes, data) = externalize(&model.bytes, "model.onnx.data");
        std::fs::write(dir.join("model.onnx"), bytes).unwrap();
        std::fs::write(dir.join("model.onnx.data"), data).unwrap();
    } else {
        std::fs::write(dir.join("model.onnx"), &model.bytes).unwrap();
    }
    model
}

pub fn config_json(options: &ModelOptions) -> serde_json::Value {
    let labels = match options.labels {
        1 => json!({"0": "vulnerable"}),
        2 => json!({"0": "benign", "1": "vulnerable"}),
        _ => json!({"0": "benign", "1": "CWE-119", "2": "CWE-416"}),
    };
    json!({
        "model_type": "roberta",
        "architectures": ["RobertaForSequenceClassification"],
        "max_position_embeddings": options.positions,
        "pad_token_id": tokenizer::PAD,
        "id2label": labels,
    })
}

/// Moves every initializer of at least 64 bytes to a data file; returns the model and the data.
pub fn externalize(bytes: &[u8], location: &str) -> (Vec<u8>, Vec<u8>) {
    let mut model = ModelProto::decode(bytes).unwrap();
    let mut data = Vec::new();
    let entry =
        |key: &str, value: String| StringStringEntryProto { key: Some(key.into()), value: Some(value) };
    for tensor in &mut model.graph.as_mut().unwrap().initializer {
        let Some(raw) = tensor.raw_data.take_if(|raw| raw.len() >= 64) else { continue };
        // Aligned as PyTorch does.
        data.resize(data.len().next_multiple_of(64), 0);
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", location.to_string()),
            entry("offset", data.len().to_string()),
            entry("length", raw.len().to_string()),
        ];
        data.extend_from_slice(&raw);
    }
    (model.encode_to_vec(), data)
}

const EPSILON: f32 = 1e-5;

impl TinyModel {
    pub fn new(options: &ModelOptions) -> TinyModel {
        let mut b = Builder {
            graph: Graph::new(17),
            random: options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            weights: HashMap::new(),
            float: if options.half { DataType::Float16 } else { DataType::Float },
            options: options.clone(),
        };
        b.build();
        TinyModel { options: options.clone(), bytes: b.graph.write(Weights::Inline), weights: b.weights }
    }

    /// The attention each token receives, per encoder layer, in plain Rust: Σ heads Σ queries.
    pub fn attention(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        self.run(ids).0
    }

    /// The logits, in plain Rust (encoder-only models with attention).
    pub fn logits(&self, ids: &[u32]) -> Vec<f64> {
        let hidden = self.run(ids).1;
        let dense = self.linear(&hidden[..1], "dense", self.options.hidden);
        let pooled: Vec<Vec<f64>> = dense.iter().map(|row| row.iter().map(|v| v.tanh()).collect()).collect();
        self.linear(&pooled, "classifier", self.options.labels).remove(0)
    }

    fn run(&self, ids: &[u32]) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let o = &self.options;
        let row = |table: &str, index: usize| -> Vec<f64> {
            let w = &self.weights[table];
            w[index * o.hidden..(index + 1) * o.hidden].iter().map(|&v| f64::from(v)).collect()
        };
        let mut position = tokenizer::PAD as usize;
        let mut x: Vec<Vec<f64>> = Vec::new();
        for &id in ids {
            let at = if id == tokenizer::PAD {
                tokenizer::PAD as usize
            } else {
                position += 1;
                position
            };
            let mut sum = add(&row("words", id as usize), &row("positions", at));
            if o.token_types {
                sum = add(&sum, &row("types", 0));
            }
            x.push(sum);
        }
        x = self.normalize(&x, "embeddings");
        let mut columns = Vec::new();
        for layer in 0..o.layers {
            let name = |part: &str| format!("layer{layer}.{part}");
            let (q, k, v) = (
                self.linear(&x, &name("q"), o.hidden),
                self.linear(&x, &name("k"), o.hidden),
                self.linear(&x, &name("v"), o.hidden),
            );
            let (n, d) = (ids.len(), o.hidden / o.heads);
            let mut received = vec![0.0; n];
            let mut context = vec![vec![0.0; o.hidden]; n];
            for head in 0..o.heads {
                let part = head * d..(head + 1) * d;
                for query in 0..n {
                    let scores: Vec<f64> = (0..n)
                        .map(|key| dot(&q[query][part.clone()], &k[key][part.clone()]) / (d as f64).sqrt())
                        .collect();
                    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let powers: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
                    let sum: f64 = powers.iter().sum();
                    for key in 0..n {
                        let weight = powers[key] / sum;
                        received[key] += weight;
                        for at in part.clone() {
                            context[query][at] += weight * v[key][at];
                        }
                    }
                }
            }
            columns.push(received);
            let attended = self.linear(&context, &name("o"), o.hidden);
            x = self.normalize(&add_all(&x, &attended), &name("norm1"));
            let inner: Vec<Vec<f64>> = self
                .linear(&x, &name("up"), o.inner * o.hidden)
                .iter()
                .map(|row| row.iter().map(|&v| 0.5 * v * (1.0 + erf(v / 2f64.sqrt()))).collect())
                .collect();
            let outer = self.linear(&inner, &name("down"), o.hidden);
            x = self.normalize(&add_all(&x, &outer), &name("norm2"));
        }
        (columns, x)
    }

    fn linear(&self, x: &[Vec<f64>], name: &str, width: usize) -> Vec<Vec<f64>> {
        let (w, b) = (&self.weights[&format!("{name}.weight")], &self.weights[&format!("{name}.bias")]);
        x.iter()
            .map(|row| {
                (0..width)
                    .map(|j| {
                        let sum: f64 =
                            row.iter().enumerate().map(|(i, v)| v * f64::from(w[i * width + j])).sum();
                        sum + f64::from(b[j])
                    })
                    .collect()
            })
            .collect()
    }

    fn normalize(&self, x: &[Vec<f64>], name: &str) -> Vec<Vec<f64>> {
        let (w, b) = (&self.weights[&format!("{name}.weight")], &self.weights[&format!("{name}.bias")]);
        x.iter()
            .map(|row| {
                let mean = row.iter().sum::<f64>() / row.len() as f64;
                let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / row.len() as f64;
                let scale = 1.0 / (variance + f64::from(EPSILON)).sqrt();
                row.iter()
                    .enumerate()
                    .map(|(i, v)| (v - mean) * scale * f64::from(w[i]) + f64::from(b[i]))
                    .collect()
            })
            .collect()
    }
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}
fn add_all(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    a.iter().zip(b).map(|(a, b)| add(a, b)).collect()
}
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
/// Series, exact to double precision where it is used.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

struct Builder {
    graph: Graph,
    random: u64,
    weights: HashMap<String, Vec<f32>>,
    float: DataType,
    options: ModelOptions,
}

impl Builder {
    fn build(&mut self) {
        let o = self.options.clone();
        let axes = ["batch", "sequence"];
        self.graph.add_input("input_ids", o.ids, &axes);
        self.graph.add_input("attention_mask", o.ids, &axes);
        if o.token_types {
            self.graph.add_input("token_type_ids", o.ids, &axes);
        }
        let to_int64 = || vec![int_attribute("to", DataType::Int64 as i64)];
        let ids = self.graph.emit("Cast", &["input_ids"], to_int64());
        let words = self.weight("words", &[o.vocab, o.hidden], 1.0);
        let embedded = self.graph.emit("Gather", &[&words, &ids], vec![]);

        // Positions count the tokens that are not padding, from behind the padding's own position.
        let pad = self.graph.constant_i64(&[i64::from(tokenizer::PAD)]);
        let is_pad = self.graph.emit("Equal", &[&ids, &pad], vec![]);
        let is_token = self.graph.emit("Not", &[&is_pad], vec![]);
        let ones = self.graph.emit("Cast", &[&is_token], to_int64());
        let axis = self.graph.constant_i64(&[1]);
        let counted = self.graph.emit("CumSum", &[&ones, &axis], vec![]);
        let counted = self.graph.emit("Mul", &[&counted, &ones], vec![]);
        let position = self.graph.emit("Add", &[&counted, &pad], vec![]);
        let table = self.weight("positions", &[o.positions, o.hidden], 0.5);
        let placed = self.graph.emit("Gather", &[&table, &position], vec![]);
        let mut x = self.graph.emit("Add", &[&embedded, &placed], vec![]);
        if o.token_types {
            let table = self.weight("types", &[2, o.hidden], 0.5);
            let typed = self.graph.emit("Gather", &[&table, "token_type_ids"], vec![]);
            x = self.graph.emit("Add", &[&x, &typed], vec![]);
        }
        x = self.normalize(&x, "embeddings");

        let to_float = vec![int_attribute("to", self.float as i64)];
        let mask = self.graph.emit("Cast", &["attention_mask"], to_float);
        let between = self.graph.constant_i64(&[1, 2]);
        let mask = self.graph.emit("Unsqueeze", &[&mask, &between], vec![]);
        let one = self.scalar(1.0);
        let absent = self.graph.emit("Sub", &[&one, &mask], vec![]);
        let far = self.scalar(-10_000.0);
        let mut mask = self.graph.emit("Mul", &[&absent, &far], vec![]);

        let pooled = if o.attention == Shape::Absent {
            self.graph.emit(
                "ReduceMean",
                &[&x],
                vec![ints_attribute("axes", &[1]), int_attribute("keepdims", 0)],
            )
        } else {
            if o.attention == Shape::RankThree {
                let first = self.graph.constant_i64(&[0]);
                mask = self.graph.emit("Squeeze", &[&mask, &first], vec![]);
            }
            for layer in 0..o.layers {
                let name = |part: &str| format!("layer{layer}.{part}");
                let attended = self.attention(&x, &x, &mask, &format!("layer{layer}"));
                x = self.residual(&x, &attended, &name("norm1"));
                let inner = self.linear(&x, &name("up"), o.hidden, o.inner * o.hidden);
                let inner = self.gelu(&inner);
                let outer = self.linear(&inner, &name("down"), o.inner * o.hidden, o.hidden);
                x = self.residual(&x, &outer, &name("norm2"));
            }
            if o.decoder {
                let shifted = self.graph.emit("Gather", &[&words, &ids], vec![]);
                let own = self.attention(&shifted, &shifted, &mask, "decoder.self");
                let state = self.residual(&shifted, &own, "decoder.norm1");
                let crossed = self.attention(&state, &x, &mask, "decoder.cross");
                x = self.residual(&state, &crossed, "decoder.norm2");
                let again = self.attention(&x, &x, &mask, "decoder.second");
                x = self.residual(&x, &again, "decoder.norm3");
            }
            let first = self.graph.add_initializer(tensor(
                "",
                DataType::Int64,
                &[],
                0i64.to_le_bytes().to_vec().into(),
            ));
            let picked = self.graph.emit("Gather", &[&x, &first], vec![int_attribute("axis", 1)]);
            let dense = self.linear(&picked, "dense", o.hidden, o.hidden);
            self.graph.emit("Tanh", &[&dense], vec![])
        };
        let logits = self.linear(&pooled, "classifier", o.hidden, o.labels);
        let output = match (o.probabilities, o.labels) {
            (false, _) => self.graph.emit_as("logits", "Identity", &[&logits], vec![]),
            (true, 1) => self.graph.emit_as("probabilities", "Sigmoid", &[&logits], vec![]),
            (true, _) => {
                self.graph.emit_as("probabilities", "Softmax", &[&logits], vec![int_attribute("axis", -1)])
            }
        };
        self.graph.add_output(&output, self.float);
    }

    fn attention(&mut self, from: &str, to: &str, mask: &str, name: &str) -> String {
        let o = self.options.clone();
        let d = o.hidden / o.heads;
        let split = self.graph.constant_i64(&[0, 0, o.heads as i64, d as i64]);
        let first = self.graph.constant_i64(&[0]);
        let heads = |b: &mut Builder, x: &str, part: &str, order: &[i64]| {
            let projected = b.linear(x, &format!("{name}.{part}"), o.hidden, o.hidden);
            let parts = b.graph.emit("Reshape", &[&projected, &split], vec![]);
            let turned = b.graph.emit("Transpose", &[&parts], vec![ints_attribute("perm", order)]);
            match o.attention {
                Shape::RankThree => b.graph.emit("Squeeze", &[&turned, &first], vec![]),
                _ => turned,
            }
        };
        let q = heads(self, from, "q", &[0, 2, 1, 3]);
        let k = heads(self, to, "k", &[0, 2, 3, 1]);
        let v = heads(self, to, "v", &[0, 2, 1, 3]);
        let scores = self.graph.emit("MatMul", &[&q, &k], vec![]);
        let scale = self.scalar((d as f32).sqrt());
        let scaled = self.graph.emit("Div", &[&scores, &scale], vec![]);
        let masked = self.graph.emit("Add", &[&scaled, mask], vec![]);
        let weights = self.graph.emit("Softmax", &[&masked], vec![int_attribute("axis", -1)]);
        let mut context = self.graph.emit("MatMul", &[&weights, &v], vec![]);
        if o.attention == Shape::RankThree {
            context = self.graph.emit("Unsqueeze", &[&context, &first], vec![]);
        }
        let turned = self.graph.emit("Transpose", &[&context], vec![ints_attribute("perm", &[0, 2, 1, 3])]);
        let joined = self.graph.constant_i64(&[0, 0, o.hidden as i64]);
        let joined = self.graph.emit("Reshape", &[&turned, &joined], vec![]);
        self.linear(&joined, &format!("{name}.o"), o.hidden, o.hidden)
    }

    fn residual(&mut self, x: &str, change: &str, norm: &str) -> String {
        let sum = self.graph.emit("Add", &[x, change], vec![]);
        self.normalize(&sum, norm)
    }

    fn gelu(&mut self, x: &str) -> String {
        let root = self.scalar(2f32.sqrt());
        let scaled = self.graph.emit("Div", &[x, &root], vec![]);
        let erf = self.graph.emit("Erf", &[&scaled], vec![]);
        let one = self.scalar(1.0);
        let shifted = self.graph.emit("Add", &[&erf, &one], vec![]);
        let product = self.graph.emit("Mul", &[x, &shifted], vec![]);
        let half = self.scalar(0.5);
        self.graph.emit("Mul", &[&product, &half], vec![])
    }

    fn linear(&mut self, x: &str, name: &str, from: usize, to: usize) -> String {
        let w = self.weight(&format!("{name}.weight"), &[from, to], 1.5 / (from as f32).sqrt());
        let b = self.weight(&format!("{name}.bias"), &[to], 0.1);
        let product = self.graph.emit("MatMul", &[x, &w], vec![]);
        self.graph.emit("Add", &[&product, &b], vec![])
    }

    fn normalize(&mut self, x: &str, name: &str) -> String {
        let width = self.options.hidden;
        let w = self.weight(&format!("{name}.weight"), &[width], 1.0);
        let b = self.weight(&format!("{name}.bias"), &[width], 0.1);
        let attributes = vec![int_attribute("axis", -1), float_attribute("epsilon", EPSILON)];
        self.graph.emit("LayerNormalization", &[x, &w, &b], attributes)
    }

    /// Uniform in -scale..scale.
    fn weight(&mut self, name: &str, dims: &[usize], scale: f32) -> String {
        let count = dims.iter().product();
        let mut values: Vec<f32> = (0..count)
            .map(|_| {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                ((self.random >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale
            })
            .collect();
        if name == "classifier.bias" {
            *values.last_mut().unwrap() += self.options.bias;
        }
        let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
        let raw = self.raw(&values);
        self.weights.insert(name.to_string(), values);
        self.graph.add_initializer(tensor(name, self.float, &dims, raw.into()))
    }

    fn scalar(&mut self, value: f32) -> String {
        let raw = self.raw(&[value]);
        self.graph.add_initializer(tensor("", self.float, &[], raw.into()))
    }

    fn raw(&self, values: &[f32]) -> Vec<u8> {
        match self.float {
            DataType::Float16 => values.iter().flat_map(|&v| half(v).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
}

/// The bits of the half-precision number nearest to zero from `value`; small ones become zero.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
    }
}
