//! The tools that judge files as their readers will: those that are generated for Prometheus and
//! `CloudFormation`, and those that an operator copies.

mod install;
mod kind;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;
use crate::workspace::Workspace;
use crate::{apt, env};

use kind::Kind;

/// One judge.
struct Validator {
    program: &'static str,
    /// What it judges, and the arguments that make it do so.
    judges: &'static [(Kind, Arguments)],
    /// It ends well whatever it finds, and says nothing when that is nothing.
    tells_by_words: bool,
    /// What to tell people who do not have it.
    install: &'static str,
    /// Gets it for the pipeline, which would otherwise never use it.
    provide: fn(&Workspace, &mut Interrupts) -> Result<Option<PathBuf>>,
}

/// What makes a program judge a file, which may be a copy under the target folder.
type Arguments = fn(&Path, &Workspace) -> Result<Vec<OsString>>;

const VALIDATORS: &[Validator] = &[
    Validator {
        program: "promtool",
        judges: &[
            (Kind::PrometheusRules, |file, _| {
                Ok(words(&["check", "rules"], file))
            }),
            (Kind::PrometheusRuleTests, |file, _| {
                Ok(words(&["test", "rules"], file))
            }),
        ],
        tells_by_words: false,
        install: "it comes with Prometheus; Debian, Ubuntu: apt-get install prometheus",
        provide: install::promtool,
    },
    Validator {
        program: "cfn-lint",
        judges: &[(Kind::CloudFormation, |file, _| Ok(words(&[], file)))],
        tells_by_words: false,
        install: "pipx install cfn-lint",
        provide: |workspace, interrupts| install::of_python("cfn-lint", workspace, interrupts),
    },
    Validator {
        program: "kubernetes-validate",
        judges: &[(Kind::Kubernetes, |file, _| Ok(words(&["--strict"], file)))],
        tells_by_words: false,
        install: "pipx install kubernetes-validate",
        provide: |workspace, interrupts| {
            install::of_python("kubernetes-validate", workspace, interrupts)
        },
    },
    Validator {
        program: "docker-compose",
        judges: &[(Kind::Compose, |file, _| Ok(compose(file)))],
        tells_by_words: false,
        install: "Docker's own packages have it; Debian, Ubuntu: apt-get install docker-compose",
        provide: install::docker_compose,
    },
    Validator {
        program: "systemd-analyze",
        judges: &[(Kind::SystemdUnit, systemd_unit)],
        tells_by_words: true,
        install: "it comes with systemd",
        provide: |_, _| Ok(None),
    },
    Validator {
        program: "nginx",
        judges: &[(Kind::Nginx, nginx)],
        tells_by_words: false,
        install: "Debian, Ubuntu: apt-get install nginx",
        provide: install::nginx,
    },
];

/// Lets each validator that can be had judge its files under `folder`, and says which ran and which
/// was not there.
///
/// # Errors
/// `Red` if one finds something wrong, with the `remedy`; `Missing` if a file cannot be read;
/// `Interrupted`.
pub(crate) fn run(
    folder: &str,
    remedy: &str,
    workspace: &Workspace,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let files = files(&workspace.root.join(folder))?;
    if files.is_empty() {
        return Err(Failure::Red(format!(
            "{folder}/ has no file that can be judged"
        )));
    }
    let mut wrong = Vec::new();
    for validator in VALIDATORS {
        let work = validator.work(&files);
        if work.is_empty() {
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
            println!("xtask: {} judges {shown}", validator.program);
            let mut command = Command::new(&program);
            command
                .current_dir(&workspace.root)
                .args(arguments(file, workspace)?);
            if !validator.is_content(&mut command, interrupts)? {
                wrong.push(format!("{shown} ({})", validator.program));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::Red(format!(
        "{}: what is wrong stands above; {remedy}",
        wrong.join(", ")
    )))
}

impl Validator {
    fn work<'file>(&self, files: &'file [(Kind, PathBuf)]) -> Vec<(Arguments, &'file Path)> {
        let judged = |(kind, file): &'file (Kind, PathBuf)| {
            let (_, arguments) = self.judges.iter().find(|(judged, _)| judged == kind)?;
            Some((*arguments, file.as_path()))
        };
        files.iter().filter_map(judged).collect()
    }

    fn is_content(&self, command: &mut Command, interrupts: &mut Interrupts) -> Result<bool> {
        if !self.tells_by_words {
            return Ok(interrupts.run(command)?.success());
        }
        let said = command
            .stdin(Stdio::null())
            .output()
            .map_err(|cause| Failure::Missing(format!("cannot run {}: {cause}", self.program)))?;
        let words = [said.stdout, said.stderr].concat();
        print!("{}", String::from_utf8_lossy(&words));
        Ok(said.status.success() && words.is_empty())
    }

    fn find(&self, workspace: &Workspace, interrupts: &mut Interrupts) -> Result<Option<PathBuf>> {
        let works = |program: &PathBuf| install::works(program);
        if let Some(program) = env::find_program(self.program).filter(works) {
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

fn words(before: &[&str], file: &Path) -> Vec<OsString> {
    let mut words: Vec<_> = before.iter().map(OsString::from).collect();
    words.push(file.into());
    words
}

/// `compose.mysql.yml` changes what `compose.yml` says, and means nothing alone.
fn compose(file: &Path) -> Vec<OsString> {
    let base = file.with_file_name("compose.yml");
    let mut words = vec!["--file".into(), base.clone().into()];
    if file != base {
        words.extend(["--file".into(), file.into()]);
    }
    words.extend(["config".into(), "--quiet".into()]);
    words
}

/// The unit names a program that the machine need not have.
fn systemd_unit(file: &Path, workspace: &Workspace) -> Result<Vec<OsString>> {
    let text = read(file)?.replace("/usr/local/bin/coord", "/bin/true");
    let copy = write(workspace, "coord.service", &text)?;
    Ok(words(&["verify", "--man=no"], &copy))
}

/// The file belongs into a configuration, and names nodes that nobody knows here.
fn nginx(file: &Path, workspace: &Workspace) -> Result<Vec<OsString>> {
    let text = read(file)?.replace("server node-", "server 127.0.0.");
    let copy = write(workspace, "coord.conf", &text)?;
    let folder = workspace.folder("deploy")?;
    // Nothing outside the folder: the package's own paths need not be there.
    let own: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("  {what}_temp_path temporary-{what};\n"))
        .concat();
    let whole = format!(
        "pid nginx.pid;\nevents {{}}\nhttp {{\n  access_log off;\n{own}  include {};\n}}\n",
        copy.display()
    );
    let whole = write(workspace, "nginx.conf", &whole)?;
    let mut words = words(&["-t", "-q", "-e", "stderr", "-p"], &folder);
    words.extend(["-c".into(), whole.into()]);
    Ok(words)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|cause| Failure::file("read", file, &cause))
}

fn write(workspace: &Workspace, name: &str, text: &str) -> Result<PathBuf> {
    let file = workspace.folder("deploy")?.join(name);
    fs::write(&file, text).map_err(|cause| Failure::file("write", &file, &cause))?;
    Ok(file)
}

/// The files under a folder that some validator judges, by name.
fn files(folder: &Path) -> Result<Vec<(Kind, PathBuf)>> {
    let unreadable = |cause: std::io::Error| Failure::file("read", folder, &cause);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if let Some(kind) = Kind::of(&path, || read(&path))? {
            found.push((kind, path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_has_one_validator() {
        for kind in Kind::ALL {
            let file = [(kind, PathBuf::from("a.yml"))];
            let judges = VALIDATORS.iter().filter(|one| !one.work(&file).is_empty());
            assert_eq!(judges.count(), 1, "{kind:?}");
        }
    }

    #[test]
    fn an_override_is_judged_on_what_it_changes() {
        let of = |file| compose(Path::new(file)).join(&OsString::from(" "));
        assert_eq!(of("a/compose.yml"), "--file a/compose.yml config --quiet");
        assert_eq!(
            of("a/compose.mysql.yml"),
            "--file a/compose.yml --file a/compose.mysql.yml config --quiet"
        );
    }
}
