//! Where servers come from: the decision, apart from the machine it is about.

/// What this machine has, as far as it is known.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact for itself, and a machine may have any of them"
)]
pub(super) struct Machine {
    /// A server to connect to, named by the caller or running here anyway.
    pub(super) server: bool,
    /// A binary to start servers from, named by the caller or installed.
    pub(super) binary: bool,
    /// Containers can be had.
    pub(super) docker: bool,
    /// The system's package can be had.
    pub(super) packages: bool,
}

/// The server that tests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    /// It is there.
    Found,
    /// It is started from the binary, installed or of the package.
    Started,
    /// It is a container.
    Container,
    /// There is none to be had.
    Nothing,
}

/// The servers that tests start for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// From the installed binary.
    Binary,
    /// In containers, and those that no container can be from the package.
    ContainersAndPackage,
    /// In containers; the tests whose servers no container can be are not run.
    Containers,
    /// From the package.
    Package,
    /// There are none to be had.
    Nothing,
}

impl Machine {
    /// What is here comes first, then Docker, then the system's package.
    pub(super) fn own(self) -> Own {
        match (self.binary, self.docker, self.packages) {
            (true, ..) => Own::Binary,
            (false, true, true) => Own::ContainersAndPackage,
            (false, true, false) => Own::Containers,
            (false, false, true) => Own::Package,
            (false, false, false) => Own::Nothing,
        }
    }

    /// One that is there already, or else where the tests' own come from.
    pub(super) fn shared(self) -> Shared {
        if self.server {
            return Shared::Found;
        }
        match self.own() {
            Own::Binary | Own::Package => Shared::Started,
            Own::ContainersAndPackage | Own::Containers => Shared::Container,
            Own::Nothing => Shared::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every machine there can be.
    fn machines() -> impl Iterator<Item = Machine> {
        (0..16).map(|bits| Machine {
            server: bits & 1 != 0,
            binary: bits & 2 != 0,
            docker: bits & 4 != 0,
            packages: bits & 8 != 0,
        })
    }

    #[test]
    fn a_server_that_is_there_is_taken_whatever_else_there_is() {
        for machine in machines() {
            let found = machine.shared() == Shared::Found;
            assert_eq!(found, machine.server, "{machine:?}");
        }
    }

    #[test]
    fn an_installed_binary_comes_before_docker_and_docker_before_the_package() {
        for machine in machines() {
            let first = match machine.own() {
                Own::Binary => (machine.binary, true),
                Own::Containers | Own::ContainersAndPackage => (machine.docker, !machine.binary),
                Own::Package => (machine.packages, !machine.binary && !machine.docker),
                Own::Nothing => (
                    true,
                    !machine.binary && !machine.docker && !machine.packages,
                ),
            };
            assert_eq!(first, (true, true), "{machine:?}");
        }
    }

    #[test]
    fn a_package_serves_beside_docker_only_what_no_container_can_be() {
        for machine in machines().filter(|machine| machine.docker && !machine.binary) {
            let beside = machine.own() == Own::ContainersAndPackage;
            assert_eq!(beside, machine.packages, "{machine:?}");
            if !machine.server {
                assert_eq!(machine.shared(), Shared::Container, "{machine:?}");
            }
        }
    }

    #[test]
    fn nothing_is_missing_where_anything_can_be_had() {
        for machine in machines() {
            let any = machine.binary || machine.docker || machine.packages;
            assert_eq!(machine.own() == Own::Nothing, !any, "{machine:?}");
            let shared = machine.shared() != Shared::Nothing;
            assert_eq!(shared, any || machine.server, "{machine:?}");
        }
    }

    #[test]
    fn a_way_that_fails_leaves_the_next_one() {
        let mut machine = Machine {
            server: false,
            binary: false,
            docker: true,
            packages: true,
        };
        assert_eq!(machine.own(), Own::ContainersAndPackage);

        machine.docker = false;
        assert_eq!(
            (machine.own(), machine.shared()),
            (Own::Package, Shared::Started)
        );

        machine.packages = false;
        assert_eq!(
            (machine.own(), machine.shared()),
            (Own::Nothing, Shared::Nothing)
        );
    }
}
