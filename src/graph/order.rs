//! Topological order.

use super::GraphError;
use super::onnx::NodeProto;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// The nodes so that each stands behind those it reads from; nodes that are free to move keep their order. `known`
/// holds the tensors that exist from the start.
pub(super) fn sorted(nodes: Vec<NodeProto>, known: &HashSet<String>) -> Result<Vec<NodeProto>, GraphError> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if let Some(first) = producers.insert(output, index) {
                return Err(GraphError::Duplicate {
                    tensor: output.clone(),
                    first: format!("node {}", nodes[first].label()),
                    second: format!("node {}", node.label()),
                });
            }
        }
    }
    let mut waiting = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for input in node.input.iter().filter(|i| !i.is_empty() && !known.contains(*i)) {
            let &producer = producers.get(input.as_str()).ok_or_else(|| GraphError::Missing {
                tensor: input.clone(),
                by: format!("node {}", node.label()),
            })?;
            readers[producer].push(index);
            waiting[index] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&index| waiting[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if order.len() < nodes.len() {
        // A node that waits may merely stand behind the cycle; walking back over waiting producers ends inside it.
        let mut at = waiting.iter().position(|&count| count > 0).unwrap_or(0);
        for _ in 0..nodes.len() {
            let back =
                nodes[at].input.iter().filter_map(|i| producers.get(i.as_str())).find(|&&p| waiting[p] > 0);
            match back {
                Some(&producer) => at = producer,
                None => break,
            }
        }
        return Err(GraphError::Cycle { node: nodes[at].label() });
    }
    let mut nodes: Vec<Option<NodeProto>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| nodes[index].take()).collect())
}
