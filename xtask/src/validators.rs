//! The tools that judge generated files as their readers will: `promtool` and `cfn-lint`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use crate::{apt, env};

/// What a file is, told by its top-level keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PrometheusRules,
    PrometheusRuleTests,
    CloudFormation,
}

/// One judge.
struct Validator {
    program: &'static str,
    /// What it judges, and the arguments that make it do so.
    judges: &'static [(Kind, &'static [&'static str])],
    /// What to tell people who do not have it.
    install: &'static str,
    /// Gets it for the pipeline, which would otherwise never use it.
    provide: fn(&Workspace, &mut Interrupts) -> Result<Option<PathBuf>>,
}

const VALIDATORS: &[Validator] = &[
    Validator {
        program: "promtool",
        judges: &[
            (Kind::PrometheusRules, &["check", "rules"]),
            (Kind::PrometheusRuleTests, &["test", "rules"]),
        ],
        install: "it comes with Prometheus; Debian, Ubuntu: apt-get install prometheus",
        provide: install_promtool,
    },
    Validator {
        program: "cfn-lint",
        judges: &[(Kind::CloudFormation, &[])],
        install: "pipx install cfn-lint",
        provide: install_cfn_lint,
    },
];

/// Lets each validator that can be had judge its files under `observability/`, and says which ran
/// and which was not there.
///
/// # Errors
/// `Red` if one finds something wrong; `Missing` if a file cannot be read; `Interrupted`.
pub(crate) fn run(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<()> {
    let files = files(workspace)?;
    let mut wrong = Vec::new();
    for validator in VALIDATORS {
        let work = validator.work(&files);
        if work.is_empty() {
            println!("xtask: {} has no file to judge", validator.program);
            continue;
        }
        let Some(program) = validator.find(workspace, interrupts)? else {
            println!(
                "xtask: {} is not here, so it judged nothing ({})",
                validator.program, validator.install
            );
            continue;
        };
        for (arguments, file) in work {
            let shown = workspace.relative(file).display();
            println!(
                "xtask: {} {} {shown}",
                validator.program,
                arguments.join(" ")
            );
            let mut command = Command::new(&program);
            command
                .current_dir(&workspace.root)
                .args(arguments)
                .arg(file);
            if !interrupts.run(&mut command)?.success() {
                wrong.push(format!("{shown} ({})", validator.program));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Red(format!(
        "{}: what is wrong stands above; correct the declaration it comes from, then \
         cargo xtask generate",
        wrong.join(", ")
    )))
}

impl Validator {
    fn work<'file>(
        &self,
        files: &'file [(Kind, PathBuf)],
    ) -> Vec<(&'static [&'static str], &'file Path)> {
        let judged = |(kind, file): &'file (Kind, PathBuf)| {
            let (_, arguments) = self.judges.iter().find(|(judged, _)| judged == kind)?;
            Some((*arguments, file.as_path()))
        };
        files.iter().filter_map(judged).collect()
    }

    fn find(&self, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Option<PathBuf>> {
        if let Some(program) = env::find_program(self.program).filter(|found| works(found)) {
            return Ok(Some(program));
        }
        if !env::is_pipeline() {
            return Ok(None);
        }
        if let Err(reason) = apt::available() {
            println!("xtask: {} cannot be installed: {reason}", self.program);
            return Ok(None);
        }
        match (self.provide)(workspace, interrupts) {
            Err(Failure::Missing(reason)) => {
                println!("xtask: {} cannot be installed: {reason}", self.program);
                Ok(None)
            }
            found => found,
        }
    }
}

/// Whether the program starts at all: what stands in `PATH` may be a shim of a version manager
/// that leads nowhere.
fn works(program: &Path) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn install_promtool(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Option<PathBuf>> {
    let program = workspace.target.join("tools/prometheus/usr/bin/promtool");
    if !works(&program) {
        println!("xtask: unpacking the package prometheus for promtool");
        let folder = workspace.emptied("tools/prometheus")?;
        apt::unpack("prometheus", &folder, workspace, interrupts)?;
    }
    Ok(Some(program).filter(|program| works(program)))
}

/// Into a virtual environment under the target folder, because the system's Python belongs to the
/// system.
fn install_cfn_lint(workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Option<PathBuf>> {
    let home = workspace.folder("tools")?.join("cfn-lint");
    let program = home.join("bin/cfn-lint");
    if works(&program) {
        return Ok(Some(program));
    }
    println!(
        "xtask: installing cfn-lint with pip, under {}",
        workspace.relative(&home).display()
    );
    let create = |interrupts: &mut Interrupts| {
        let mut command = Command::new("python3");
        command
            .args(["-m", "venv", "--clear"])
            .arg(&home)
            .stdout(Stdio::null());
        interrupts.run(&mut command)
    };
    if !create(interrupts).is_ok_and(|status| status.success()) {
        apt::install("python3-venv", workspace, interrupts)?;
        create(interrupts)?;
    }
    let mut command = Command::new(home.join("bin/pip"));
    command.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "cfn-lint",
    ]);
    interrupts.run(&mut command)?;
    Ok(Some(program).filter(|program| works(program)))
}

/// The files under `observability/` that some validator judges, by name.
fn files(workspace: &Workspace) -> Result<Vec<(Kind, PathBuf)>> {
    let folder = workspace.root.join("observability");
    let unreadable = |cause: std::io::Error| Failure::file("read", &folder, &cause);
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path
            .extension()
            .is_some_and(|end| end == "yml" || end == "yaml")
        {
            let text =
                fs::read_to_string(&path).map_err(|cause| Failure::file("read", &path, &cause))?;
            files.extend(kind(&text).map(|kind| (kind, path)));
        }
    }
    Ok(files)
}

fn kind(text: &str) -> Option<Kind> {
    text.lines().find_map(|line| match line.split_once(':')?.0 {
        "groups" => Some(Kind::PrometheusRules),
        "rule_files" | "tests" => Some(Kind::PrometheusRuleTests),
        "AWSTemplateFormatVersion" | "Resources" => Some(Kind::CloudFormation),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_top_level_keys() {
        assert_eq!(
            kind("# generated\ngroups:\n  - name: a\n"),
            Some(Kind::PrometheusRules)
        );
        assert_eq!(
            kind("rule_files: [a.yml]\ntests: []\n"),
            Some(Kind::PrometheusRuleTests)
        );
        assert_eq!(kind("Resources:\n  A: {}\n"), Some(Kind::CloudFormation));
        assert_eq!(kind("dashboard:\n  groups:\n    - a\n"), None);
    }

    #[test]
    fn each_kind_of_file_has_a_validator() {
        let file = |kind| vec![(kind, PathBuf::from("a.yml"))];
        for kind in [
            Kind::PrometheusRules,
            Kind::PrometheusRuleTests,
            Kind::CloudFormation,
        ] {
            let judges = VALIDATORS
                .iter()
                .filter(|one| !one.work(&file(kind)).is_empty());
            assert_eq!(judges.count(), 1, "{kind:?}");
        }
    }
}
