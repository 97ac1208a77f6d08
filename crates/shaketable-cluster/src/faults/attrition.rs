//! Attrition: machines die, or reboot, one after another.

use super::{BadOption, Context, Options};
use crate::kill::Target;
use shaketable_kernel::{KillKind, Stream};

/// The options of Attrition.
#[derive(Clone, Debug, PartialEq)]
pub struct Attrition {
    /// How many zones die.
    pub machines_to_kill: usize,
    /// How many zones stay.
    pub machines_to_leave: usize,
    /// How long it runs, in seconds.
    pub test_duration: f64,
    /// Whether they come back with their disks.
    pub reboot: bool,
    /// Whether a whole datacenter dies instead.
    pub kill_dc: bool,
    /// Whether a zone may be killed twice.
    pub replacement: bool,
    /// Whether zones may fail through disk errors.
    pub allow_fault_injection: bool,
}

impl Attrition {
    pub(super) fn read(options: &mut Options<'_>, random: &Stream) -> Result<Self, BadOption> {
        let (kill_dc, replacement) = (random.chance(0.25), random.chance(0.5));
        // Options that only matter outside a simulation are read and ignored.
        for name in [
            "workersToKill",
            "workersToLeave",
            "suspendDuration",
            "liveDuration",
            "killMachine",
            "killDatahall",
            "killProcess",
            "killZone",
            "killSelf",
            "killAll",
            "targetIds",
            "waitForVersion",
        ] {
            options.text(name, "");
        }
        let reboot = options.flag("reboot", false)?;
        Ok(Attrition {
            machines_to_kill: options.count("machinesToKill", 2)?,
            machines_to_leave: options.count("machinesToLeave", 1)?,
            test_duration: options.number("testDuration", 10.0)?,
            reboot,
            kill_dc: options.flag("killDc", kill_dc)?,
            replacement: options.flag("replacement", reboot && replacement)?,
            allow_fault_injection: options.flag("allowFaultInjection", true)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let attack = async {
            if self.kill_dc {
                self.kill_datacenter(context).await;
            } else {
                self.kill_zones(context).await;
            }
        };
        let _ = context.here().timeout(self.test_duration, attack).await;
    }

    fn mean_delay(&self) -> f64 {
        self.test_duration / self.machines_to_kill.max(1) as f64
    }

    async fn kill_datacenter(&self, context: &Context) {
        let (saboteur, random) = (&context.saboteur, &context.random);
        context.sleep(random.uniform() * self.mean_delay()).await;
        let server = *random.pick(saboteur.servers());
        let datacenter = saboteur.describe(server).datacenter.clone();
        let kind = if self.reboot {
            KillKind::Reboot
        } else {
            let kinds = [
                KillKind::KillInstantly,
                KillKind::InjectFaults,
                KillKind::RebootAndDelete,
            ];
            *random.pick(&kinds)
        };
        context.kill(&Target::Datacenter(datacenter), kind);
    }

    async fn kill_zones(&self, context: &Context) {
        let random = &context.random;
        let mut zones = context.saboteur.zones();
        random.shuffle(&mut zones);
        let mut killed = 0;
        while killed < self.machines_to_kill && zones.len() > self.machines_to_leave {
            let delay = random.uniform() * self.mean_delay();
            context.sleep(delay).await;
            let zone = if self.replacement {
                random.pick(&zones).clone()
            } else {
                zones.remove(0)
            };
            self.kill_zone(context, zone);
            killed += 1;
            context.sleep(self.mean_delay() - delay).await;
        }
    }

    fn kill_zone(&self, context: &Context, zone: String) {
        let (saboteur, random) = (&context.saboteur, &context.random);
        if self.reboot {
            if random.chance(0.5) {
                context.kill(&Target::Zone(zone), KillKind::Reboot);
                return;
            }
            let all = random.chance(0.5);
            let servers = saboteur.servers().iter().copied();
            let mut processes: Vec<_> = servers
                .filter(|process| saboteur.describe(*process).zone == zone)
                .collect();
            random.shuffle(&mut processes);
            processes.truncate(if all { processes.len() } else { 1 });
            for process in processes {
                context.kill(&Target::Process(process), KillKind::RebootProcess);
            }
            return;
        }
        let draw = random.uniform();
        let kind = if draw < 0.33 {
            KillKind::RebootAndDelete
        } else if draw < 0.50 && self.allow_fault_injection {
            KillKind::InjectFaults
        } else {
            KillKind::KillInstantly
        };
        context.kill(&Target::Zone(zone), kind);
    }
}
