//! Turns a rendered template into the object to apply: with kro's ownership labels and annotations, and a hash by which a later
//! reconcile recognises that nothing changed.

use std::borrow::Cow;
use std::io;

use kross_api::{
    ClusterId, annotations, applyset_id, label_version,
    labels::{self as keys, MANAGED_BY_KRO, OWNED_TRUE},
    remote_applyset_id,
};
use kross_graph::{Graph, Node};
use kross_value::{Key, Object, Text, Value};
use sha2::{Digest, Sha256};

use crate::instance::Instance;
use crate::lifecycle::EvaluatedLifecycle;
use crate::settings::Settings;

/// The longest value of a label.
const MAX_LABEL: usize = 63;

/// The labels and apply sets of an instance's objects.
pub(crate) struct Ownership {
    labels: Vec<(Key, Value)>,
    /// The name of the instance, if it is too long for its label.
    long_name: Option<Text>,
    local: Text,
    remote: Text,
}

/// What the labels and annotations of one object say.
pub(crate) struct ObjectMarks<'a> {
    pub(crate) node: &'a Node,
    pub(crate) cluster: &'a ClusterId,
    /// Position in the collection, and its size.
    pub(crate) item: Option<(usize, usize)>,
    pub(crate) lifecycle: &'a EvaluatedLifecycle,
}

/// An object to apply.
pub(crate) struct Desired {
    pub(crate) object: Value,
    /// A hash of all of it but the hash itself.
    pub(crate) hash: Text,
    /// The size of its JSON, in bytes.
    pub(crate) size: usize,
}

impl Ownership {
    pub(crate) fn new(graph: &Graph, instance: &Instance<'_>, settings: &Settings) -> Self {
        let kind = &graph.instance;
        let mut labels = vec![
            (keys::OWNED, Value::from(OWNED_TRUE)),
            (keys::KRO_VERSION, Value::from(label_version(&settings.version))),
            (keys::INSTANCE_ID, Value::from(instance.uid())),
            (keys::INSTANCE_NAME, Value::from(label_name(instance.name()).into_owned())),
            (keys::INSTANCE_GROUP, Value::from(kind.group.clone())),
            (keys::INSTANCE_VERSION, Value::from(kind.version.clone())),
            (keys::INSTANCE_KIND, Value::from(kind.kind.clone())),
            (keys::MANAGED_BY, Value::from(MANAGED_BY_KRO)),
        ];
        if let Some(namespace) = instance.namespace() {
            labels.push((keys::INSTANCE_NAMESPACE, Value::from(namespace)));
        }
        let (name, namespace) = (instance.name(), instance.namespace().unwrap_or_default());
        let hub = &settings.hub_uid;
        Self {
            labels: labels.into_iter().map(|(key, value)| (Key::new(key), value)).collect(),
            long_name: matches!(label_name(name), Cow::Owned(_)).then(|| name.into()),
            local: applyset_id(name, namespace, &kind.kind, &kind.group).into(),
            remote: remote_applyset_id(name, namespace, &kind.kind, &kind.group, hub).into(),
        }
    }

    /// The apply set of the instance in a cluster.
    pub(crate) fn applyset(&self, cluster: &ClusterId) -> &Text {
        if cluster.is_local() { &self.local } else { &self.remote }
    }

    /// The object to apply. `metadata` is the rendered one, with its namespace.
    pub(crate) fn desired(
        &self,
        mut object: Object,
        mut metadata: Object,
        marks: &ObjectMarks<'_>,
    ) -> Desired {
        let mut labels = taken(&mut metadata, "labels");
        for (key, value) in &self.labels {
            labels.insert(key.clone(), value.clone());
        }
        labels.insert(keys::NODE_ID, Value::from(marks.node.id.clone()));
        labels.insert(keys::APPLYSET_PART_OF, Value::from(self.applyset(marks.cluster).clone()));
        if let Some((index, size)) = marks.item {
            labels.insert(keys::COLLECTION_INDEX, Value::from(index.to_string()));
            labels.insert(keys::COLLECTION_SIZE, Value::from(size.to_string()));
        }
        metadata.insert("labels", Value::Object(labels));
        let mut annotations = taken(&mut metadata, "annotations");
        annotations.insert(annotations::APPLY_ORDER, Value::from(marks.node.apply_order.to_string()));
        if let Some(name) = &self.long_name {
            annotations.insert(annotations::INSTANCE_NAME, Value::from(name.clone()));
        }
        if let Some(lifecycle) = marks.lifecycle.annotation() {
            annotations.insert(annotations::LIFECYCLE, Value::from(lifecycle));
        }
        metadata.insert("annotations", Value::Object(annotations.clone()));
        object.insert("metadata", Value::Object(metadata.clone()));
        let (hash, size) = hash_and_size(&object);
        annotations.insert(annotations::DESIRED_HASH, Value::from(hash.clone()));
        metadata.insert("annotations", Value::Object(annotations));
        object.insert("metadata", Value::Object(metadata));
        Desired { object: Value::Object(object), hash, size }
    }
}

/// Removes an object from another; an empty one where there is none.
fn taken(object: &mut Object, key: &str) -> Object {
    match object.remove(key) {
        Some(Value::Object(inner)) => inner,
        _ => Object::new(),
    }
}

/// The name of an instance as the value of a label. Names may be longer than labels: then the end is replaced by a hash.
fn label_name(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_LABEL {
        return Cow::Borrowed(name);
    }
    let hash: String = hash(name).chars().take(10).collect();
    let kept = name.get(..MAX_LABEL - hash.len() - 1).unwrap_or_default();
    Cow::Owned(format!("{}-{hash}", kept.trim_end_matches(['-', '.'])))
}

/// The first half of the SHA-256 of the canonical JSON.
pub(crate) fn hash<T: serde::Serialize + ?Sized>(object: &T) -> Text {
    hash_and_size(object).0
}

fn hash_and_size<T: serde::Serialize + ?Sized>(object: &T) -> (Text, usize) {
    let mut json = Measured { writer: Sha256::new(), size: 0 };
    // Writing to a hasher cannot fail, and every object has a JSON form.
    let _ = serde_json::to_writer(&mut json, object);
    let digest = json.writer.finalize();
    (digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into(), json.size)
}

/// The size of the JSON of a value, in bytes.
pub(crate) fn json_size<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    let mut json = Measured { writer: io::sink(), size: 0 };
    let _ = serde_json::to_writer(&mut json, value);
    json.size
}

/// Counts the bytes that are written.
struct Measured<W> {
    writer: W,
    size: usize,
}

impl<W: io::Write> io::Write for Measured<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.size += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
