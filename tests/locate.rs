//! Where the library and the model are looked for, and where not.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::detector::locate::{LocateError, Located, Surroundings, library_in, model_in};
use std::path::{Path, PathBuf};

fn touch(path: &Path) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
    path.to_path_buf()
}

fn folder(path: &Path) -> PathBuf {
    std::fs::create_dir_all(path).unwrap();
    path.to_path_buf()
}

fn installed_at(executable: &Path) -> Surroundings {
    Surroundings { executable: Some(executable.to_path_buf()), ..Default::default() }
}

#[track_caller]
fn found(result: Result<Located, LocateError>, path: &Path, how: &str) {
    let located = result.unwrap();
    assert_eq!(located.path, path);
    assert!(located.how.contains(how), "{}", located.how);
}

#[test]
fn the_library_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("usr/bin/linelens"));
    let mut around = installed_at(&exe);
    let error = library_in(&around, None, &[]).unwrap_err().to_string();
    for part in [
        "ONNX Runtime",
        "usr/bin",
        "usr/lib",
        "python*",
        "pip install onnxruntime",
        "ORT_DYLIB_PATH",
        "library =",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // From the last place to the first, each wins over those before.
    around.home = Some(root.join("home").into());
    let data = root.join("home/.local/share/linelens");
    let own = touch(&data.join("lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.32.0"));
    found(library_in(&around, None, &[]), &own, "Python environment in the user's data folder");
    let copied = touch(&data.join("lib/libonnxruntime.so.1.24.0"));
    found(library_in(&around, None, &[]), &copied, "the user's data folder");
    let debian = touch(&root.join("usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.24.0"));
    found(library_in(&around, None, &[]), &debian, "Python environment");
    std::fs::remove_dir_all(root.join("usr/lib/python3")).unwrap();
    let python =
        touch(&root.join("usr/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.32.0"));
    found(library_in(&around, None, &[]), &python, "Python environment");
    let lib = touch(&root.join("usr/lib/libonnxruntime.so.1.24.0"));
    found(library_in(&around, None, &[]), &lib, "lib folder");
    let beside = touch(&root.join("usr/bin/libonnxruntime.so.1.9.0"));
    found(library_in(&around, None, &[]), &beside, "beside the executable");
    // The newest of several, by number; other libraries do not count.
    touch(&root.join("usr/bin/libonnxruntime_providers_shared.so"));
    let newer = touch(&root.join("usr/bin/libonnxruntime.so.1.32.0"));
    found(library_in(&around, None, &[]), &newer, "beside");
    let named = touch(&root.join("opt/libonnxruntime.so"));
    around.ort_dylib_path = Some(named.clone().into());
    found(library_in(&around, None, &[]), &named, "ORT_DYLIB_PATH");
    let explicit = touch(&root.join("mine/libonnxruntime.so"));
    found(library_in(&around, Some(&explicit), &[]), &explicit, "setting");
    found(library_in(&around, Some(explicit.parent().unwrap()), &[]), &explicit, "setting");
    // What was named and is missing is an error, not a reason to look elsewhere.
    let error = library_in(&around, Some(&root.join("gone.so")), &[]).unwrap_err().to_string();
    assert!(error.contains("gone.so") && error.contains("setting"), "{error}");
}

/// `onnxruntime` and `onnxruntime-gpu` unpack into one folder; who installed the latter wants CUDA.
#[test]
fn the_library_with_cuda_wins_over_a_newer_one_without() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let around = installed_at(&touch(&root.join("env/bin/linelens")));
    let packages = root.join("env/lib/python3.11/site-packages");
    let newer = touch(&packages.join("onnxruntime/capi/libonnxruntime.so.1.32.0"));
    let with_cuda = touch(&packages.join("onnxruntime/capi/libonnxruntime.so.1.31.1"));
    folder(&packages.join("onnxruntime-1.32.0.dist-info"));
    found(library_in(&around, None, &[]), &newer, "Python environment");
    folder(&packages.join("onnxruntime_gpu-1.31.1.dist-info"));
    found(library_in(&around, None, &[]), &with_cuda, "Python environment");
    found(library_in(&around, Some(newer.parent().unwrap()), &[]), &with_cuda, "setting");
    found(library_in(&around, Some(&newer), &[]), &newer, "setting");
}

#[cfg(unix)]
#[test]
fn a_linked_executable_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("opt/linelens/bin/linelens"));
    let library = touch(&root.join("opt/linelens/lib/libonnxruntime.so"));
    let link = root.join("usr/bin/linelens");
    folder(link.parent().unwrap());
    std::os::unix::fs::symlink(&exe, &link).unwrap();
    found(library_in(&installed_at(&link), None, &[]), &library, "lib folder");
}

#[test]
fn a_development_build_uses_its_source_tree() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("src/target/debug/deps/linelens-1234"));
    let library = touch(
        &root
            .join("src/.linelens-env/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.32.0"),
    );
    let model = folder(&root.join("src/models/default"));
    let around = installed_at(&exe);
    // Only a tree that holds a Cargo.toml is one.
    assert!(library_in(&around, None, &[]).is_err());
    touch(&root.join("src/Cargo.toml"));
    found(library_in(&around, None, &[]), &library, "source tree");
    found(model_in(&around, None, &[]), &model, "source tree");
    // Working on linelens itself with linelens: the executable lies in the open folder, too.
    found(library_in(&around, None, &[root.join("src")]), &library, "source tree");
}

#[test]
fn nothing_is_discovered_in_an_open_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("home/bin/linelens"));
    let open = folder(&root.join("home/lib"));
    let trap = touch(&open.join("libonnxruntime.so"));
    let mut around = installed_at(&exe);
    found(library_in(&around, None, &[]), &trap, "lib folder");
    let error = library_in(&around, None, std::slice::from_ref(&open)).unwrap_err().to_string();
    assert!(error.contains("skipped") && error.contains(&*trap.to_string_lossy()), "{error}");
    // What the user names may lie anywhere.
    found(library_in(&around, Some(&trap), std::slice::from_ref(&open)), &trap, "setting");
    around.ort_dylib_path = Some(trap.clone().into());
    found(library_in(&around, None, std::slice::from_ref(&open)), &trap, "ORT_DYLIB_PATH");

    let environment = folder(&open.join("python3.11/site-packages/onnxruntime/capi"));
    let trap = touch(&environment.join("libonnxruntime.so.1.32.0"));
    around.ort_dylib_path = None;
    let error = library_in(&around, None, std::slice::from_ref(&open)).unwrap_err().to_string();
    assert!(
        error.contains(&*format!("{} (the executable's Python environment): skipped", trap.display())),
        "{error}"
    );

    let data = folder(&root.join("work/data"));
    let model = folder(&data.join("linelens/models/default"));
    let around = Surroundings { data_home: Some(data.into()), ..installed_at(&exe) };
    found(model_in(&around, None, &[]), &model, "data folder");
    let error = model_in(&around, None, &[root.join("work")]).unwrap_err().to_string();
    assert!(error.contains("skipped") && error.contains("LINELENS_MODEL"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_into_and_out_of_the_workspace_are_seen_through() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("home/bin/linelens"));
    let open = folder(&root.join("work"));
    let inside = touch(&open.join("libonnxruntime.so"));
    folder(&root.join("home/lib"));
    std::os::unix::fs::symlink(&inside, root.join("home/lib/libonnxruntime.so")).unwrap();
    let error = library_in(&installed_at(&exe), None, std::slice::from_ref(&open)).unwrap_err().to_string();
    assert!(error.contains("skipped"), "{error}");
    // The folder opened through a link is the same folder.
    std::os::unix::fs::symlink(&open, root.join("alias")).unwrap();
    assert!(library_in(&installed_at(&exe), None, &[root.join("alias")]).is_err());
}

#[test]
fn the_model_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("usr/bin/linelens"));
    let mut around = Surroundings { home: Some(root.join("home").into()), ..installed_at(&exe) };
    let error = model_in(&around, None, &[]).unwrap_err().to_string();
    for part in
        ["model directory", "usr/bin/models/default", "share/linelens", ".local/share", "LINELENS_MODEL"]
    {
        assert!(error.contains(part), "{error}");
    }
    let data = folder(&root.join("home/.local/share/linelens/models/default"));
    found(model_in(&around, None, &[]), &data, "data folder");
    let share = folder(&root.join("usr/share/linelens/models/default"));
    found(model_in(&around, None, &[]), &share, "share folder");
    let beside = folder(&root.join("usr/bin/models/default"));
    found(model_in(&around, None, &[]), &beside, "beside");
    let named = folder(&root.join("named"));
    around.linelens_model = Some(named.clone().into());
    found(model_in(&around, None, &[]), &named, "LINELENS_MODEL");
    let explicit = folder(&root.join("explicit"));
    found(model_in(&around, Some(&explicit), &[]), &explicit, "setting");
    let error = model_in(&around, Some(&exe), &[]).unwrap_err().to_string();
    assert!(error.contains("a file, expected a directory"), "{error}");
    let error = model_in(&around, Some(&root.join("gone")), &[]).unwrap_err().to_string();
    assert!(error.contains("gone") && error.contains("no such directory"), "{error}");
}

#[test]
fn a_relative_data_folder_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let exe = touch(&root.join("usr/bin/linelens"));
    let home = folder(&root.join("home/.local/share/linelens/models/default"));
    // Tests run in the package's folder.
    let relative = tempfile::tempdir_in(".").unwrap();
    let name = relative.path().file_name().unwrap();
    folder(&Path::new(name).join("linelens/models/default"));
    let around = Surroundings {
        data_home: Some(name.into()),
        home: Some(root.join("home").into()),
        ..installed_at(&exe)
    };
    found(model_in(&around, None, &[]), &home, "data folder");
}
