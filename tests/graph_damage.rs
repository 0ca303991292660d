//! Damaged models: thousands of mutations of the small golden models, which must give errors, never a panic, a long
//! wait or a read outside of the model's folder.
//!
//! `LINELENS_FUZZ=100000 cargo test --test graph_damage` tries more of them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support {
    pub mod damage;
}

use linelens::detector::attribution::Attribution;
use linelens::detector::session::{Element, Feed, Preparation, Provider, Runtime, Session, SessionOptions};
use linelens::detector::{Cancellation, Row, locate};
use linelens::graph::attribution::{self, Target};
use linelens::graph::backward::Rules;
use linelens::graph::canonical::{canonicalize, with_visible_attention};
use linelens::graph::onnx::tensor_proto::DataType;
use linelens::graph::onnx::{GraphProto, ModelProto};
use linelens::graph::shapes::{PROBE_SIZES, ProbeRun, Shapes};
use linelens::graph::structure::Structure;
use linelens::graph::{Graph, Weights, attention};
use prost::Message;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::damage::{Random, damage, damage_bytes, damage_run};

const SAMPLE: [u32; 5] = [0, 5, 6, 7, 2];
const RULES: [Rules; 3] =
    [Rules::Gradient, Rules::AttnLrp { plain_head_tanh: false }, Rules::AttnLrp { plain_head_tanh: true }];
/// Rules, and integrated gradients, the gradient at the cut and no derivative at all.
const METHODS: usize = RULES.len() + 3;
/// Longer than any of these graphs may take, on a busy machine.
const LONG: Duration = Duration::from_secs(5);

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/attribution/models")
}

fn runtime() -> Runtime {
    Runtime::load(&locate::library(None, &[]).unwrap()).unwrap()
}

fn options() -> SessionOptions {
    SessionOptions { threads: Some(1), ..Default::default() }
}

fn count(default: u64) -> u64 {
    std::env::var("LINELENS_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

/// A model as it was, and what running it said.
struct Sound {
    name: String,
    model: ModelProto,
    runs: [ProbeRun; 2],
}

fn sound_models() -> &'static [Sound] {
    static SOUND: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUND.get_or_init(|| read_models(&runtime()))
}

fn read_models(runtime: &Runtime) -> Vec<Sound> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(models()).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let sound = files.iter().map(|file| {
        let bytes = std::fs::read(file).unwrap();
        let model = ModelProto::decode(bytes.as_slice()).unwrap();
        let runs = Graph::read(bytes.into()).ok().and_then(|graph| {
            let graph = canonicalize(&graph, |_| Some(8)).ok()?;
            Some(PROBE_SIZES.map(|size| probe(runtime, &graph, size)))
        });
        Sound {
            name: file.file_stem().unwrap().to_string_lossy().into_owned(),
            model,
            runs: runs.unwrap_or_default(),
        }
    });
    sound.collect()
}

fn probe(runtime: &Runtime, graph: &Graph, (batch, tokens): (usize, usize)) -> ProbeRun {
    let mut found = None;
    let _ = Shapes::probe(graph, |everything, _| {
        let model = everything.write(Weights::Inline);
        let mut session =
            Session::open(runtime, &model, &models(), Provider::Cpu, &options(), Preparation::AsIs)?;
        let ports = session.inputs().to_vec();
        let elements: Vec<Element> = ports.iter().map(|port| port.element.clone()).collect();
        let row: Vec<f64> = (0..tokens)
            .map(|place| if place + 1 == tokens { 2.0 } else { 5.0 + (place % 3) as f64 })
            .collect();
        let feeds: Vec<Feed<'_>> = ports
            .iter()
            .zip(&elements)
            .map(|(port, element)| Feed {
                name: &port.name,
                element,
                shape: vec![batch, tokens],
                values: match port.name.as_str() {
                    "input_ids" => row.repeat(batch),
                    name => vec![if name.contains("mask") { 1.0 } else { 0.0 }; batch * tokens],
                },
            })
            .collect();
        found = Some(session.probe(&feeds).map_err(|error| error.to_string())?);
        Err::<ProbeRun, _>("only one run is wanted".to_string())
    });
    found.unwrap_or_default()
}

/// How far a damaged model gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Nothing,
    Read,
    Canonical,
    Structure,
    Derived,
}

/// What is done to a graph without ONNX Runtime, with the shapes that `runs` claim, for the method and label of this
/// number.
fn everything(bytes: Vec<u8>, runs: &[ProbeRun; 2], number: usize) -> Reached {
    let Ok(graph) = Graph::read(bytes.into()) else { return Reached::Nothing };
    for external in graph.external_data() {
        let inside = !external.location.split(['/', '\\']).any(|part| part == "..");
        assert!(inside && !Path::new(&external.location).is_absolute(), "{external:?}");
    }
    graph.write(Weights::InFile("model.onnx"));
    let ids = graph.inputs().next().map(|input| input.name().to_string()).unwrap_or_default();
    let output = graph.outputs()[0].name().to_string();
    graph.final_activation(&output);
    let _ = attention::encoder_layers(&with_visible_attention(graph.clone()), &ids);
    let probe =
        |graph: &Graph| Shapes::probe(graph, |_, size| Ok(runs[usize::from(size == PROBE_SIZES[1])].clone()));
    let before = probe(&graph);
    let width = |tensor: &str| {
        let shapes = before.as_ref().ok()?;
        shapes.fixed_size(tensor, shapes.rank(tensor)?.checked_sub(1)?)
    };
    let Ok(canonical) = canonicalize(&graph, width) else { return Reached::Read };
    let Ok(shapes) = probe(&canonical) else { return Reached::Read };
    let Ok(structure) = Structure::find(&canonical, &shapes, &ids, &output) else {
        return Reached::Canonical;
    };
    let target = Target { vulnerable: vec![number % 3] };
    let layers = attention::encoder_layers(&canonical, &ids).unwrap_or_default();
    let derived = match number / 3 % METHODS {
        0 => attribution::integrated_gradients(&canonical, &shapes, &structure, &target),
        1 => attribution::gradient_at_cut(&canonical, &shapes, &structure, &target),
        2 => Ok(attribution::forward(&canonical, &structure, &target, &layers).0),
        other => {
            let rules = RULES[other - 3];
            attribution::gradient_times_input(&canonical, &shapes, &structure, &target, rules)
        }
    };
    match derived {
        Ok(graph) => {
            graph.write(Weights::InFile("model.onnx"));
            Reached::Derived
        }
        Err(_) => Reached::Structure,
    }
}

#[test]
fn damaged_models_give_errors() {
    let sound = sound_models();
    assert!(sound.iter().filter(|sound| !sound.runs[0].is_empty()).count() > 25);
    for sound in sound.iter().filter(|sound| sound.name.starts_with("roberta-torchscript")) {
        for number in 0..3 * METHODS {
            let reached = everything(sound.model.encode_to_vec(), &sound.runs, number);
            assert_eq!(reached, Reached::Derived, "{}, {number}", sound.name);
        }
    }
    let mut failures = Vec::new();
    let mut reached = std::collections::BTreeMap::new();
    let mut slowest = Duration::ZERO;
    for number in 0..count(2000) {
        let mut random = Random::new(number);
        let base = random.of(sound);
        let mut model = base.model.clone();
        let done: Vec<String> = (0..1 + random.below(3)).map(|_| damage(&mut model, &mut random)).collect();
        let mut bytes = model.encode_to_vec();
        if random.below(8) == 0 {
            damage_bytes(&mut bytes, &mut random);
        }
        let mut runs = base.runs.clone();
        if random.below(2) == 0 {
            damage_run(&mut runs, &mut random);
        }
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| everything(bytes, &runs, number as usize))) {
            Ok(at) => *reached.entry(at).or_insert(0) += 1,
            Err(_) => failures.push(format!("{number}: {} after {done:?}", base.name)),
        }
        slowest = slowest.max(start.elapsed());
        assert!(start.elapsed() < LONG, "{number}: {} after {done:?} takes too long", base.name);
    }
    println!("{reached:?}, the slowest {slowest:?}");
    assert!(failures.is_empty(), "{} panics:\n{}", failures.len(), failures.join("\n"));
    assert!(reached.len() == 5, "the damage is too great or too small: {reached:?}");
}

/// The same with ONNX Runtime, which must not be brought down either.
#[test]
fn damaged_models_do_not_bring_the_runtime_down() {
    let runtime = runtime();
    let sound = sound_models();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.onnx");
    let (mut attributed, mut slowest) = (0, Duration::ZERO);
    for number in 0..count(100) {
        // Not those of the other test.
        let mut random = Random::new(number ^ 0x5eed_0000);
        let base = random.of(sound);
        let mut model = base.model.clone();
        let done: Vec<String> = (0..1 + random.below(2)).map(|_| damage(&mut model, &mut random)).collect();
        // On a crash nothing else says which one it was.
        std::fs::write(folder.path().join("number"), format!("{number}: {} after {done:?}", base.name))
            .unwrap();
        if std::env::var_os("LINELENS_FUZZ").is_some() {
            println!("{number}: {} after {done:?}", base.name);
        }
        std::fs::write(&file, model.encode_to_vec()).unwrap();
        let start = Instant::now();
        let target = Target { vulnerable: vec![1] };
        if let Ok(mut found) = Attribution::of_file(&runtime, &options(), &file, target, &SAMPLE) {
            let (row, cancel) = (Row::unpadded(&SAMPLE), Cancellation::new());
            for rules in &RULES[..2] {
                let relevance = found.gradient_times_input(std::slice::from_ref(&row), *rules, &cancel);
                attributed += usize::from(relevance.is_ok());
            }
            let _ = found.integrand(&row, &[0, 1, 1, 1, 2], &[0.0, 0.5], &cancel);
        }
        slowest = slowest.max(start.elapsed());
        assert!(start.elapsed() < 4 * LONG, "{number}: {} after {done:?} takes too long", base.name);
    }
    println!("{attributed} attributions in spite of the damage, the slowest {slowest:?}");
    assert!(attributed > 10, "{attributed}");
}

/// What lies beside the folder is never read, whatever way of writing the path the file chooses.
#[test]
fn external_data_outside_is_not_read() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    let bytes = std::fs::read(models().join("roberta-torchscript-17-eager.onnx")).unwrap();
    let model = ModelProto::decode(bytes.as_slice()).unwrap();
    let graph: &GraphProto = model.graph.as_ref().unwrap();
    let (place, table) = graph
        .initializer
        .iter()
        .enumerate()
        .filter(|(_, tensor)| tensor.data_type() == DataType::Float as i32 && tensor.dims.len() == 2)
        .max_by_key(|(_, tensor)| tensor.dims[0])
        .unwrap();
    let data = table.raw_data.clone().unwrap();
    std::fs::write(parent.path().join("secret"), &data).unwrap();
    std::fs::write(folder.join("inside"), &data).unwrap();
    let absolute = parent.path().join("secret").to_string_lossy().into_owned();
    let mut locations = vec![
        ("inside".to_string(), true),
        ("./inside".to_string(), true),
        ("../secret".to_string(), false),
        ("./../secret".to_string(), false),
        ("inside/../../secret".to_string(), false),
        ("..\\secret".to_string(), false),
        (absolute.clone(), false),
        (format!("/{absolute}"), false),
        (format!("file://{absolute}"), false),
        ("".to_string(), false),
        (".".to_string(), false),
        ("inside\0".to_string(), false),
    ];
    if cfg!(unix) {
        std::os::unix::fs::symlink(parent.path().join("secret"), folder.join("link")).unwrap();
        std::os::unix::fs::symlink(parent.path(), folder.join("up")).unwrap();
        locations.extend([("link".to_string(), false), ("up/secret".to_string(), false)]);
    }
    let (runtime, file) = (runtime(), folder.join("model.onnx"));
    for (location, allowed) in locations {
        let mut model = model.clone();
        let tensor = &mut model.graph.as_mut().unwrap().initializer[place];
        support::damage::move_outside(tensor, &location);
        std::fs::write(&file, model.encode_to_vec()).unwrap();
        let target = Target { vulnerable: vec![1] };
        let found = Attribution::of_file(&runtime, &options(), &file, target, &SAMPLE);
        match (allowed, found) {
            (true, Ok(_)) => {}
            (true, Err(error)) => panic!("{location:?}: {error}"),
            (false, Ok(_)) => panic!("{location:?} was read"),
            (false, Err(error)) => println!("{location:?}: {error}"),
        }
    }
}
