//! What a file is.

use std::path::Path;

use crate::error::Result;

/// What a file is, told by its name or by its top-level keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PrometheusRules,
    PrometheusRuleTests,
    CloudFormation,
    Kubernetes,
    Compose,
    SystemdUnit,
    Nginx,
}

impl Kind {
    #[cfg(test)]
    pub(super) const ALL: [Self; 7] = [
        Self::PrometheusRules,
        Self::PrometheusRuleTests,
        Self::CloudFormation,
        Self::Kubernetes,
        Self::Compose,
        Self::SystemdUnit,
        Self::Nginx,
    ];

    /// What the file at `path` is, whose `text` is read where its name does not tell.
    ///
    /// # Errors
    /// Those of `text`.
    pub(super) fn of(path: &Path, text: impl FnOnce() -> Result<String>) -> Result<Option<Self>> {
        let end = path.extension().and_then(|end| end.to_str());
        Ok(match end {
            Some("service") => Some(Self::SystemdUnit),
            Some("conf") => Some(Self::Nginx),
            Some("yml" | "yaml") => Self::of_keys(&text()?),
            _ => None,
        })
    }

    fn of_keys(text: &str) -> Option<Self> {
        text.lines().find_map(|line| match line.split_once(':')?.0 {
            "groups" => Some(Self::PrometheusRules),
            "rule_files" | "tests" => Some(Self::PrometheusRuleTests),
            "AWSTemplateFormatVersion" | "Resources" => Some(Self::CloudFormation),
            "apiVersion" => Some(Self::Kubernetes),
            "services" => Some(Self::Compose),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_name_or_its_top_level_keys() {
        let kind = |name: &str, text: &str| {
            Kind::of(Path::new(name), || Ok(text.to_owned())).expect("it is read")
        };
        assert_eq!(
            kind("a.yml", "# generated\ngroups:\n  - name: a\n"),
            Some(Kind::PrometheusRules)
        );
        assert_eq!(
            kind("a.yml", "rule_files: [a.yml]\ntests: []\n"),
            Some(Kind::PrometheusRuleTests)
        );
        assert_eq!(
            kind("a.yml", "Resources:\n  A: {}\n"),
            Some(Kind::CloudFormation)
        );
        assert_eq!(
            kind("a.yaml", "# a\napiVersion: v1\n"),
            Some(Kind::Kubernetes)
        );
        assert_eq!(kind("a.yml", "name: a\nservices:\n"), Some(Kind::Compose));
        assert_eq!(kind("a.yml", "dashboard:\n  groups:\n    - a\n"), None);
        assert_eq!(kind("a.service", ""), Some(Kind::SystemdUnit));
        assert_eq!(kind("a.conf", ""), Some(Kind::Nginx));
        assert_eq!(kind("Dockerfile", "services:\n"), None);
    }
}
