//! TargetedKill: the process that plays a given role dies.

use super::{BadOption, Context, Options};
use crate::kill::Target;
use shaketable_kernel::{KillKind, Stream};

/// The options of TargetedKill.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetedKill {
    /// When, in seconds.
    pub kill_at: f64,
    /// The role: `master`, `commitproxy`, `grvproxy`, `resolver`, `tlog`, `storage`,
    /// `clustercontroller`.
    pub machine_to_kill: String,
    /// Whether it comes back.
    pub reboot: bool,
    /// Whether its whole machine dies.
    pub kill_whole_machine: bool,
    /// How many storage servers die, if the role is `storage`.
    pub num_kill_storages: usize,
}

impl TargetedKill {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        options.text("suspendDuration", "");
        let machine_to_kill = options.text("machineToKill", "master");
        if role_name(&machine_to_kill).is_none() {
            let expected = "a role: master, commitproxy, grvproxy, resolver, tlog, storage or clustercontroller";
            return Err(BadOption {
                name: "machineToKill",
                expected,
                text: machine_to_kill,
            });
        }
        Ok(TargetedKill {
            kill_at: options.number("killAt", 5.0)?,
            machine_to_kill,
            reboot: options.flag("reboot", false)?,
            kill_whole_machine: options.flag("killWholeMachine", false)?,
            num_kill_storages: options.count("numKillStorages", 1)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let saboteur = &context.saboteur;
        context.sleep(self.kill_at).await;
        let role = role_name(&self.machine_to_kill).expect("checked when the options were read");
        let mut playing = saboteur.playing(role);
        context.random.shuffle(&mut playing);
        let count = if role == "storage" {
            self.num_kill_storages
        } else {
            1
        };
        for process in playing.into_iter().take(count) {
            let (target, kind) = match (self.kill_whole_machine, self.reboot) {
                (true, reboot) => {
                    let zone = Target::Zone(saboteur.describe(process).zone.clone());
                    (
                        zone,
                        if reboot {
                            KillKind::Reboot
                        } else {
                            KillKind::KillInstantly
                        },
                    )
                }
                (false, true) => (Target::Process(process), KillKind::RebootProcess),
                (false, false) => (Target::Process(process), KillKind::KillInstantly),
            };
            context.kill(&target, kind);
        }
    }
}

/// Our name for a role, from FoundationDB's words for it.
fn role_name(text: &str) -> Option<&'static str> {
    Some(match text {
        "master" | "sequencer" => "sequencer",
        "commitproxy" | "proxy" => "commitproxy",
        "grvproxy" => "grvproxy",
        "resolver" => "resolver",
        "tlog" => "tlog",
        "storage" | "ss" | "storageserver" => "storage",
        "clustercontroller" | "cc" => "clustercontroller",
        _ => return None,
    })
}
