//! One arena for the intermediate results of all sessions on the CPU, so that what one method used serves the next.
//! Each session by itself would keep its own, or ask the system for the same memory in every run, which costs a third
//! of a short one's time.

use super::{RunError, failed};
use crate::graph::onnx::tensor_proto::DataType;
use crate::graph::{Graph, Weights};
use ort::AsPointer;
use ort::environment::Environment;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{RunOptions, Session};
use ort::value::Tensor;

/// Makes the arena. Sessions use it that are built with `with_env_allocators`.
pub(super) fn register(environment: &Environment) -> ort::Result<()> {
    let memory = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Arena, MemoryType::Default)?;
    // reason: the binding has no name for this call. Both pointers are valid for its time, the environment takes a copy
    // of what the second describes, and without a configuration the arena gets ONNX Runtime's defaults.
    #[allow(unsafe_code)]
    unsafe {
        let register = ort::api().CreateAndRegisterAllocator;
        let status = register(environment.ptr().cast_mut(), memory.ptr(), std::ptr::null());
        ort::Error::result_from_status(status)
    }
}

/// Gives what no session holds of the arena back to the system. Only a run can ask for that, so a graph runs that does nothing.
pub(super) fn give_back(environment: &Environment) -> Result<(), RunError> {
    let mut graph = Graph::new(13);
    graph.add_input("nothing", DataType::Float, &["1"]);
    let result = graph.emit("Identity", &["nothing"], Vec::new());
    graph.add_output(&result, DataType::Float);
    let mut session = builder(environment)
        .and_then(|mut builder| builder.commit_from_memory(&graph.write(Weights::Inline)))
        .map_err(failed)?;
    let mut options = RunOptions::new().map_err(failed)?;
    options.set("memory.enable_memory_arena_shrinkage", "cpu:0").map_err(failed)?;
    let nothing = Tensor::from_array(([1usize], vec![0.0f32])).map_err(failed)?;
    session.run_with_options(ort::inputs!["nothing" => nothing], &options).map_err(failed)?;
    super::trim();
    Ok(())
}

fn builder(environment: &Environment) -> ort::Result<ort::session::builder::SessionBuilder> {
    Ok(Session::builder(environment)?.with_intra_threads(1)?.with_env_allocators()?)
}
