//! Label selectors as they are in requests: `tier=web,env in (a,b),!old`.

/// A label selector. A requirement that is not understood is left to the API server.
#[derive(Debug, Default)]
pub(super) struct LabelSelector(Vec<Requirement>);

#[derive(Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl LabelSelector {
    pub(super) fn parse(text: &str) -> Self {
        Self(split(text).filter_map(Requirement::parse).collect())
    }

    pub(super) fn matches<'o>(&self, label: impl Fn(&str) -> Option<&'o str>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| has(values, value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| !has(values, value)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        })
    }
}

fn has(values: &[String], value: &str) -> bool {
    values.iter().any(|known| known == value)
}

/// The requirements: commas in parentheses separate values.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((left, values)) = text.split_once('(') {
            let values = values.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
            let mut words = left.split_whitespace();
            return match (key(words.next()?)?, words.next()?, words.next()) {
                (key, "in", None) => Some(Self::In(key, values)),
                (key, "notin", None) => Some(Self::NotIn(key, values)),
                _ => None,
            };
        }
        if let Some((left, value)) = text.split_once("!=") {
            return Some(Self::NotIn(key(left)?, vec![value.trim().to_owned()]));
        }
        if let Some((left, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Some(Self::In(key(left)?, vec![value.trim().to_owned()]));
        }
        match text.strip_prefix('!') {
            Some(absent) => key(absent).map(Self::Absent),
            None => key(text).map(Self::Exists),
        }
    }
}

fn key(text: &str) -> Option<String> {
    let text = text.trim();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    (!text.is_empty() && text.bytes().all(known)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_evaluated_as_the_api_server_does() {
        let labels = [("tier", "web"), ("kro.run/owned", "true"), ("empty", "")];
        let label = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        for (selector, expected) in [
            ("tier=web", true),
            ("tier==web,kro.run/owned=true", true),
            ("tier=db", false),
            ("tier=web,other=x", false),
            ("tier!=db,other!=x", true),
            ("tier!=web", false),
            ("tier in (db, web),env notin (a,b)", true),
            ("tier in (db,cache)", false),
            ("tier notin (web)", false),
            ("tier,!other", true),
            ("other", false),
            ("!tier", false),
            ("empty=", true),
            ("", true),
            ("replicas>3", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).matches(label), expected, "{selector}");
        }
    }
}
