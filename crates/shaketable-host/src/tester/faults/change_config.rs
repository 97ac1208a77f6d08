//! `ChangeConfig`: changes the database's configuration while it is in use, which costs a recovery.

use super::Scene;
use super::options::Reader;
use crate::trace::Severity;

/// The workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::tester) struct ChangeConfig {
    delay_seconds_min: f64,
    delay_seconds_max: f64,
    /// A `configure` command: `double`, `logs=3`….
    config_mode: String,
    /// `auto`, or addresses; either way other coordinators.
    coordinators: String,
    coordinator_changes: i64,
}

/// What passes between two changes of the coordinators.
const BETWEEN_CHANGES_SECONDS: f64 = 20.0;

impl ChangeConfig {
    pub(super) fn read(options: &Reader<'_>) -> Result<Self, String> {
        Ok(ChangeConfig {
            delay_seconds_min: options.number("minDelayBeforeChange", 0.0)?,
            delay_seconds_max: options.number("maxDelayBeforeChange", 0.0)?,
            config_mode: options.text("configMode"),
            coordinators: options.text("coordinators"),
            coordinator_changes: options.integer("coordinatorChanges", 1)?,
        })
    }

    pub(super) async fn start(&self, scene: &Scene) {
        let kernel = scene.kernel();
        let spread = (self.delay_seconds_max - self.delay_seconds_min).max(0.0);
        kernel
            .sleep(self.delay_seconds_min + scene.random.uniform() * spread)
            .await;
        if !self.config_mode.is_empty() {
            scene.run.trace(
                scene
                    .run
                    .event(Severity::Info, "ChangeConfig")
                    .detail("ConfigMode", &self.config_mode),
            );
            scene.configure(&self.config_mode).await;
        }
        if self.coordinators.is_empty() {
            return;
        }
        for change in 0..self.coordinator_changes.max(0) {
            if change > 0 {
                kernel.sleep(BETWEEN_CHANGES_SECONDS).await;
            }
            scene.run.trace(
                scene
                    .run
                    .event(Severity::Info, "ChangeCoordinators")
                    .detail("Coordinators", &self.coordinators),
            );
            scene.change_coordinators().await;
        }
    }
}
