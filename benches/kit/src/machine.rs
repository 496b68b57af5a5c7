//! The top of the output: the machine, and who takes part.

use crate::system;

/// Packages whose versions are told, and the lock file that has them.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// The text of `Cargo.lock`.
    pub lock: &'static str,
    /// Their names.
    pub names: &'static [&'static str],
}

/// Two lines, with what there is to say of the place, and the versions of these packages.
pub(crate) fn describe(place: Option<&str>, packages: Packages) -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let model = field(&read("/proc/cpuinfo"), "model name")
        .unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let version_of =
        |name: &&str| format!("{name} {}", version(packages.lock, name).unwrap_or("?"));
    let versions: Vec<String> = packages.names.iter().map(version_of).collect();
    format!(
        "{model}, {} cores, kernel {}, load {}{}\nwheelwork {}; {}",
        system::cores(),
        kernel.trim(),
        load.split(' ').next().unwrap_or("?"),
        place.map_or(String::new(), |place| format!(", {place}")),
        env!("CARGO_PKG_VERSION"),
        versions.join(", ")
    )
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':')
        .map(|(_, value)| value.trim().to_string())
}

/// A package's version in a lock file. Of several it is the last one, which is the newest.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, package) = lock.rsplit_once(&format!("name = \"{name}\"\nversion = \""))?;
    package.split_once('"').map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_versions() {
        let text = "processor : 0\nmodel name\t: Good one\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Good one"));
        let lock = "[[package]]\nname = \"tokio\"\nversion = \"1.2.3\"\n";
        assert_eq!(version(lock, "tokio"), Some("1.2.3"));
        let both = lock.to_string() + &lock.replace("1.2.3", "1.3.0");
        assert_eq!(version(&both, "tokio"), Some("1.3.0"));
        assert_eq!(version("", "tokio"), None);
    }
}
