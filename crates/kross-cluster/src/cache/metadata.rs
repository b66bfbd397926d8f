//! Parses a page of a metadata list (`PartialObjectMetadataList`) into what shows whether an object has changed: name,
//! UID, resource version and labels. Everything else is skipped.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::store::NamespacedName;
use crate::object::StoredObject;

/// Requests a list that contains metadata only.
pub(super) const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A page of a metadata list.
#[derive(Debug)]
pub(super) struct MetadataPage {
    pub(super) items: Vec<ObjectVersion>,
    pub(super) version: String,
    pub(super) next: Option<String>,
}

/// An object of a metadata list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectVersion {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) uid: String,
    pub(super) resource_version: String,
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    /// Some servers write `null` for an empty list. Without the field it is no list.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectVersion,
}

impl MetadataPage {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let Page { metadata, items } = serde_json::from_slice(bytes)?;
        Ok(Self {
            items: items.unwrap_or_default().into_iter().map(|item| item.metadata).collect(),
            version: metadata.resource_version,
            next: metadata.next.filter(|next| !next.is_empty()),
        })
    }
}

impl ObjectVersion {
    pub(super) fn namespaced_name(&self) -> NamespacedName {
        (self.namespace.as_deref().unwrap_or_default().into(), self.name.as_str().into())
    }

    /// Whether an object is this one, in this version.
    pub(super) fn is(&self, object: &StoredObject) -> bool {
        *self.resource_version == **object.resource_version() && *self.uid == **object.uid()
    }

    /// Whether an object that was read after the list still has the labels that it was listed with.
    pub(super) fn has_labels_of(&self, object: &StoredObject) -> bool {
        self.labels.len() == object.labels().len()
            && self.labels.iter().all(|(name, value)| object.label(name) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::read_object;

    #[test]
    fn a_metadata_page_is_parsed_into_object_versions() {
        let page = MetadataPage::read(
            br#"{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9","continue":""},"items":[
                {"kind":"PartialObjectMetadata","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7",
                 "labels":{"tier":"web"},"managedFields":[{"manager":"x"}]}}]}"#,
        )
        .unwrap();
        assert_eq!((page.version.as_str(), page.next), ("9", None));
        let object = |version: &str, tier: &str| {
            let text = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","namespace":"shop","uid":"u",
                "resourceVersion":"{version}","labels":{{"tier":"{tier}"}}}}}}"#
            );
            read_object(text.as_bytes()).unwrap()
        };
        assert!(page.items[0].is(&object("7", "web")));
        assert!(!page.items[0].is(&object("8", "web")));
        assert!(page.items[0].has_labels_of(&object("8", "web")));
        assert!(!page.items[0].has_labels_of(&object("8", "db")));
        assert!(MetadataPage::read(b"<html>").is_err());
        assert!(MetadataPage::read(b"{}").is_err());
        assert!(MetadataPage::read(br#"{"items":null}"#).unwrap().items.is_empty());
    }
}
