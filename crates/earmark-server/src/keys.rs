//! Access keys: made once, kept as hashes in the data folder.
//!
//! A key is 256 random bits, so a plain fast hash keeps it: there is nothing to guess that slow hashing would protect.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use earmark::{Error, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// File of the keys in the data folder.
const FILE: &str = "keys.json";
/// What every key starts with, so that people and secret scanners know it.
const PREFIX: &str = "em_";

/// What a key allows; each level includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Recall, list, explain, export.
    Read,
    /// Remember, change, forget, give feedback, import.
    Write,
    /// Steer learning; create and remove namespaces.
    Admin,
}

/// A key as it is kept: everything but the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Names it in lists and logs.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// BLAKE3 of the key, in hexadecimal.
    hash: String,
    /// Namespaces that it opens; `*` is every one.
    pub namespaces: Vec<String>,
    /// What it allows there.
    pub access: Access,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Key {
    /// Whether it opens the namespace.
    pub fn opens(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|name| name == "*" || name == namespace)
    }

    /// The namespace meant when none is named: its only one, or `default`.
    pub fn usual_namespace(&self) -> &str {
        match self.namespaces.as_slice() {
            [only] if only != "*" => only,
            _ => "default",
        }
    }

    /// In constant time: the comparison of BLAKE3 hashes is.
    fn is(&self, presented: &blake3::Hash) -> bool {
        blake3::Hash::from_hex(&self.hash).is_ok_and(|hash| hash == *presented)
    }
}

/// The keys of a data folder. A change by another process is seen by the next look-up.
#[derive(Debug)]
pub struct Keys {
    path: PathBuf,
    read: RwLock<(Option<Stamp>, KeyList)>,
}

/// Keys, shared with whoever looks at them.
type KeyList = Arc<Vec<Arc<Key>>>;

/// What tells two states of the file apart.
type Stamp = (SystemTime, u64);

impl Keys {
    /// The keys in `data_folder`; there may be none yet.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`] of the file.
    pub fn open(data_folder: &Path) -> Result<Keys> {
        let keys = Keys { path: data_folder.join(FILE), read: RwLock::default() };
        keys.list()?;
        Ok(keys)
    }

    /// All keys, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`] of the file.
    pub fn list(&self) -> Result<Arc<Vec<Arc<Key>>>> {
        let stamp = stamp(&self.path)?;
        {
            let read = self.read.read().unwrap_or_else(PoisonError::into_inner);
            if read.0 == stamp {
                return Ok(read.1.clone());
            }
        }
        let keys = Arc::new(read(&self.path)?.into_iter().map(Arc::new).collect());
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = (stamp, Arc::clone(&keys));
        Ok(keys)
    }

    /// The key that was presented, if it is one of these.
    ///
    /// # Errors
    /// As [`Keys::list`].
    pub fn find(&self, presented: &str) -> Result<Option<Arc<Key>>> {
        let hash = blake3::hash(presented.as_bytes());
        Ok(self.list()?.iter().find(|key| key.is(&hash)).cloned())
    }

    /// Makes a key and returns it with what is kept of it; it can never be shown again.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for no namespace; [`Error::Io`].
    pub fn create(&self, name: &str, namespaces: &[String], access: Access) -> Result<(String, Key)> {
        if namespaces.is_empty() || namespaces.iter().any(String::is_empty) {
            return Err(Error::invalid("namespaces", "must name at least one namespace, or `*` for every one"));
        }
        let secret = format!("{PREFIX}{}", hex(&random()?));
        let key = Key {
            id: format!("k_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]),
            name: name.to_owned(),
            hash: blake3::hash(secret.as_bytes()).to_hex().to_string(),
            namespaces: namespaces.to_vec(),
            access,
            created_at: Timestamp::now(),
        };
        let kept = key.clone();
        self.change(move |keys| keys.push(kept))?;
        Ok((secret, key))
    }

    /// Removes the key with this id; servers refuse it from then on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Io`].
    pub fn revoke(&self, id: &str) -> Result<()> {
        let mut found = false;
        self.change(|keys| {
            let before = keys.len();
            keys.retain(|key| key.id != id);
            found = keys.len() < before;
        })?;
        if found { Ok(()) } else { Err(Error::not_found("key", id)) }
    }

    /// Rewrites the file as a whole, one process at a time.
    fn change(&self, change: impl FnOnce(&mut Vec<Key>)) -> Result<()> {
        let failed = |e: &dyn std::fmt::Display| Error::Io { path: self.path.clone(), reason: e.to_string() };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let lock = File::create(folder.join("keys.lock")).map_err(|e| failed(&e))?;
        lock.lock().map_err(|e| failed(&e))?;
        let mut keys = read(&self.path)?;
        change(&mut keys);
        let text = serde_json::to_string_pretty(&keys).map_err(|e| failed(&e))?;
        // A temporary file is readable by its owner alone, and stays so under its new name.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| failed(&e))?;
        file.write_all(text.as_bytes()).map_err(|e| failed(&e))?;
        file.as_file().sync_all().map_err(|e| failed(&e))?;
        file.persist(&self.path).map_err(|e| failed(&e))?;
        Ok(())
    }
}

fn stamp(path: &Path) -> Result<Option<Stamp>> {
    match fs::metadata(path) {
        Ok(data) => Ok(Some((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::Io { path: path.to_owned(), reason: e.to_string() }),
    }
}

fn read(path: &Path) -> Result<Vec<Key>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::Io { path: path.to_owned(), reason: e.to_string() }),
    };
    serde_json::from_slice(&text).map_err(|e| Error::Corrupt { path: path.to_owned(), reason: e.to_string() })
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| Error::Io { path: "random numbers".into(), reason: e.to_string() })?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_as_hashes_found_and_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::open(folder.path()).unwrap();
        let other_process = Keys::open(folder.path()).unwrap();
        let (secret, key) = keys.create("laptop", &["work".to_owned()], Access::Write).unwrap();
        let file = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!file.contains(&secret[3..]), "the key itself is not kept");
        assert_eq!(other_process.find(&secret).unwrap().unwrap().id, key.id);
        for wrong in ["", "em_", &secret[..secret.len() - 1], &key.hash] {
            assert!(keys.find(wrong).unwrap().is_none(), "{wrong}");
        }
        other_process.revoke(&key.id).unwrap();
        assert!(keys.find(&secret).unwrap().is_none());
        assert!(keys.revoke(&key.id).is_err());
    }

    #[test]
    fn keys_open_their_namespaces_only() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::open(folder.path()).unwrap();
        let (_, one) = keys.create("", &["work".to_owned()], Access::Read).unwrap();
        assert!(one.opens("work") && !one.opens("Work") && !one.opens("work2") && !one.opens(""));
        assert_eq!(one.usual_namespace(), "work");
        let (_, all) = keys.create("", &["*".to_owned()], Access::Admin).unwrap();
        assert!(all.opens("anything"));
        assert_eq!(all.usual_namespace(), "default");
        assert!(keys.create("", &[], Access::Read).is_err());
    }

    #[test]
    fn a_damaged_file_is_no_open_door() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "[{}").unwrap();
        assert!(matches!(Keys::open(folder.path()), Err(Error::Corrupt { .. })));
    }
}
