//! `Attrition`: kills and reboots machines, zone by zone, or a whole datacenter.

use super::Scene;
use super::options::Reader;
use crate::trace::Severity;
use shaketable_kernel::{KillKind, Stream};

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::tester) struct Attrition {
    machines_to_kill: i64,
    machines_to_leave: i64,
    duration_seconds: f64,
    reboot: bool,
    /// Kills a whole datacenter, once, instead of zones.
    kill_datacenter: bool,
    /// Whether a zone may be hit again.
    replacement: bool,
    allow_fault_injection: bool,
}

impl Attrition {
    pub(super) fn read(options: &Reader<'_>, random: &Stream) -> Result<Self, String> {
        let reboot = options.boolean("reboot")?.unwrap_or(false);
        let kill_datacenter = random.chance(0.25);
        let replacement = reboot && random.chance(0.5);
        Ok(Attrition {
            machines_to_kill: options.integer("machinesToKill", 2)?,
            machines_to_leave: options.integer("machinesToLeave", 1)?,
            duration_seconds: options.number("testDuration", 10.0)?,
            reboot,
            kill_datacenter: options.boolean("killDc")?.unwrap_or(kill_datacenter),
            replacement: options.boolean("replacement")?.unwrap_or(replacement),
            allow_fault_injection: options.boolean("allowFaultInjection")?.unwrap_or(true),
        })
    }

    pub(super) fn injected() -> Self {
        Attrition {
            machines_to_kill: 2,
            machines_to_leave: 1,
            duration_seconds: 10.0,
            reboot: false,
            kill_datacenter: false,
            replacement: false,
            allow_fault_injection: true,
        }
    }

    pub(super) async fn start(&self, scene: &Scene) {
        if !scene.run.fault_injection || self.machines_to_kill <= 0 {
            return;
        }
        let all = async {
            if self.kill_datacenter {
                self.datacenter(scene).await;
            } else {
                self.zones(scene).await;
            }
        };
        let _ = scene.kernel().timeout(self.duration_seconds, all).await;
    }

    fn mean_delay_seconds(&self) -> f64 {
        self.duration_seconds / self.machines_to_kill as f64
    }

    async fn datacenter(&self, scene: &Scene) {
        let random = &scene.random;
        scene
            .kernel()
            .sleep(random.uniform() * self.mean_delay_seconds())
            .await;
        let datacenters = scene.datacenters();
        let Some(target) = (!datacenters.is_empty()).then(|| random.pick(&datacenters).clone())
        else {
            return;
        };
        let kind = if self.reboot {
            KillKind::Reboot
        } else {
            *random.pick(&[
                KillKind::KillInstantly,
                KillKind::InjectFaults,
                KillKind::RebootAndDelete,
            ])
        };
        scene.run.trace(
            scene
                .run
                .event(Severity::Info, "Assassination")
                .detail("TargetDatacenter", &target)
                .detail("Reboot", u8::from(self.reboot))
                .detail("KillType", format!("{kind:?}")),
        );
        scene.kill_datacenter(&target, kind);
    }

    async fn zones(&self, scene: &Scene) {
        let (kernel, random) = (scene.kernel(), &scene.random);
        let mut zones = scene.zones();
        random.shuffle(&mut zones);
        let mut killed = 0;
        while killed < self.machines_to_kill && zones.len() as i64 > self.machines_to_leave.max(0) {
            let before = random.uniform() * self.mean_delay_seconds();
            kernel.sleep(before).await;
            let target = zones.last().expect("more than are to be left").clone();
            self.strike(scene, &target);
            killed += 1;
            if !self.replacement {
                zones.pop();
            }
            kernel.sleep(self.mean_delay_seconds() - before).await;
            random.shuffle(&mut zones);
        }
    }

    fn strike(&self, scene: &Scene, zone: &str) {
        let random = &scene.random;
        let event = |kind: KillKind| {
            scene
                .run
                .event(Severity::Info, "Assassination")
                .detail("TargetMachine", zone)
                .detail("Reboot", u8::from(self.reboot))
                .detail("KilledMachines", 1)
                .detail("KillType", format!("{kind:?}"))
        };
        if self.reboot {
            if random.chance(0.5) {
                let one = random.chance(0.5);
                scene.run.trace(event(KillKind::RebootProcess));
                scene.reboot_processes(zone, one);
            } else {
                scene.run.trace(event(KillKind::Reboot));
                scene.kill_zone(zone, KillKind::Reboot);
            }
            return;
        }
        let kind = match random.uniform() {
            u if u < 0.33 => KillKind::RebootAndDelete,
            u if u < 0.50 && self.allow_fault_injection => KillKind::InjectFaults,
            _ => KillKind::KillInstantly,
        };
        scene.run.trace(event(kind));
        scene.kill_zone(zone, kind);
    }
}
