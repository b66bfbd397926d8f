//! Puts a layer into an OCI archive: the layout of the OCI image specification 1.1 as one tar file, which `podman load`, `ctr image
//! import`, `skopeo` and `kind load image-archive` read.
//!
//! Written by hand: the maintained writer, `ocidir`, brings OpenSSL and chrono, which `deny.toml` refuses, for three documents.

use serde_json::{Value as Json, json};

use super::layer::{Layer, USER, digest};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An archive, and the digest of its manifest, by which a registry knows the image.
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: String,
}

/// The architecture as Go, and with it OCI, names it.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The archive of an image that runs `/kross`.
pub(super) fn archive(layer: &Layer, name: &str, architecture: &str) -> anyhow::Result<Archive> {
    let config = json!({
        // A fixed time: the same binary is the same image.
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/kross"],
            "WorkingDir": "/",
            "ExposedPorts": {"8078/tcp": {}, "8079/tcp": {}},
            "Labels": labels(),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.files_digest]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask image"}],
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(layer.media_type, &layer.bytes)],
        "annotations": labels(),
    });
    let manifest = manifest.to_string().into_bytes();
    let mut described = descriptor(MANIFEST, &manifest);
    if let Some(fields) = described.as_object_mut() {
        fields.insert("platform".to_owned(), json!({"architecture": architecture, "os": "linux"}));
        let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        // containerd takes the whole name, everything else the tag.
        let names = json!({"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name});
        fields.insert("annotations".to_owned(), names);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]}).to_string();
    let blobs = [&config, &manifest, &layer.bytes];
    Ok(Archive { bytes: tar(index.as_bytes(), blobs)?, digest: digest(&manifest) })
}

fn labels() -> Json {
    json!({
        "org.opencontainers.image.title": "kross",
        "org.opencontainers.image.description": "One graph of Kubernetes objects over many clusters",
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
        "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
    })
}

fn descriptor(kind: &str, blob: &[u8]) -> Json {
    json!({"mediaType": kind, "digest": digest(blob), "size": blob.len()})
}

fn tar(index: &[u8], blobs: [&Vec<u8>; 3]) -> anyhow::Result<Vec<u8>> {
    let mut files = vec![
        ("oci-layout".to_owned(), &br#"{"imageLayoutVersion":"1.0.0"}"#[..]),
        ("index.json".to_owned(), index),
    ];
    files.extend(blobs.map(|blob| (format!("blobs/{}", digest(blob).replace(':', "/")), blob.as_slice())));
    let mut builder = tar::Builder::new(Vec::new());
    for (path, contents) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(contents.len() as u64);
        header.set_mtime(0);
        builder.append_data(&mut header, path, contents)?;
    }
    Ok(builder.into_inner()?)
}
