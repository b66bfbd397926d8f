//! Parses a page of a metadata list (`PartialObjectMetadataList`) into what shows whether an object has changed: name,
//! UID, resource version and labels. Everything else is skipped.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::store::NamespacedName;
use crate::client::Expected;
use crate::object::StoredObject;

/// Requests a list that contains metadata only.
pub(super) const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A page of a metadata list.
#[derive(Debug)]
pub(super) struct MetadataPage {
    pub(super) items: Vec<ObjectVersion>,
    pub(super) version: String,
    pub(super) next: Option<String>,
    /// How many items were left out because not even their names can be read.
    pub(super) dropped: usize,
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
struct Page<I> {
    #[serde(default)]
    metadata: PageMetadata,
    /// Some servers write `null` for an empty list. Without the field it is no list.
    #[serde(
        deserialize_with = "Option::deserialize",
        bound(deserialize = "Option<Vec<I>>: Deserialize<'de>")
    )]
    items: Option<Vec<I>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Default, Deserialize)]
struct Item {
    metadata: ObjectVersion,
}

impl MetadataPage {
    /// Parses a page. An item whose name cannot be read is only counted.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        // As for other lists, one go is faster than to find the end of each item first.
        let (metadata, items) = match serde_json::from_slice(bytes) {
            Ok(Page::<Item> { metadata, items }) => (metadata, items.unwrap_or_default()),
            Err(_) => Self::read_items(bytes)?,
        };
        let all = items.len();
        let items: Vec<ObjectVersion> = items
            .into_iter()
            .map(|item| item.metadata)
            .filter(|metadata| !metadata.name.is_empty())
            .collect();
        Ok(Self {
            dropped: all - items.len(),
            items,
            version: metadata.resource_version,
            next: metadata.next.filter(|next| !next.is_empty()),
        })
    }

    /// Parses the items of a page one by one. Those that cannot be read have no name.
    fn read_items(bytes: &[u8]) -> Result<(PageMetadata, Vec<Item>), serde_json::Error> {
        let Page::<&RawValue> { metadata, items } = serde_json::from_slice(bytes)?;
        let items = items.unwrap_or_default().into_iter();
        Ok((metadata, items.map(|raw| serde_json::from_str(raw.get()).unwrap_or_default()).collect()))
    }
}

impl ObjectVersion {
    pub(super) fn namespaced_name(&self) -> NamespacedName {
        (self.namespace.as_deref().unwrap_or_default().into(), self.name.as_str().into())
    }

    /// Whether the request asked for this object.
    pub(super) fn matches(&self, expected: &Expected) -> bool {
        let label = |name: &str| self.labels.get(name).map(String::as_str);
        expected.matches_metadata(self.namespace.as_deref(), &self.name, label)
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

    #[test]
    fn items_without_a_readable_name_are_left_out_and_counted() {
        let page = MetadataPage::read(
            br#"{"metadata":{"resourceVersion":"9","continue":"next"},"items":[{"metadata":{"name":"a"}},{"metadata":{}}]}"#,
        )
        .unwrap();
        assert_eq!((page.items.len(), page.dropped), (1, 1));
        let page = MetadataPage::read(
            br#"{"metadata":{"resourceVersion":"9","continue":"next"},
                "items":[{},{"metadata":{"name":7}},{"metadata":{"name":"b"}},null]}"#,
        )
        .unwrap();
        assert_eq!((page.items[0].name.as_str(), page.items.len(), page.dropped), ("b", 1, 3));
        assert_eq!((page.version.as_str(), page.next.as_deref()), ("9", Some("next")));
    }
}
