//! ChangeConfig: the configuration of the database changes while it is in use. Its presence keeps
//! the automatic fault workloads away.

use super::{BadOption, Context, Options};
use crate::server::layout::Configuration;
use crate::server::metadata::Metadata;
use shaketable_kernel::Stream;

/// The pause between two changes of the coordinators, in seconds.
const COORDINATOR_PAUSE: f64 = 20.0;

/// The options of ChangeConfig.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeConfig {
    /// The shortest delay before the change, in seconds.
    pub min_delay_before_change: f64,
    /// The longest delay before the change, in seconds.
    pub max_delay_before_change: f64,
    /// What to change, as a `configure` command.
    pub config_mode: String,
    /// `auto`, or addresses.
    pub coordinators: String,
    /// How often the coordinators change.
    pub coordinator_changes: usize,
}

impl ChangeConfig {
    pub(super) fn read(options: &mut Options<'_>, _: &Stream) -> Result<Self, BadOption> {
        let config_mode = options.text("configMode", "");
        let mut check = Configuration::SINGLE;
        check.configure(&config_mode).map_err(|word| BadOption {
            name: "configMode",
            expected: "words of a configure command",
            text: word,
        })?;
        Ok(ChangeConfig {
            min_delay_before_change: options.number("minDelayBeforeChange", 0.0)?.trunc(),
            max_delay_before_change: options.number("maxDelayBeforeChange", 0.0)?.trunc(),
            config_mode,
            coordinators: options.text("coordinators", ""),
            coordinator_changes: options.count("coordinatorChanges", 1)?,
        })
    }

    pub(super) async fn start(&self, context: &Context) {
        let (min, max) = (self.min_delay_before_change, self.max_delay_before_change);
        context
            .sleep(min + context.random.uniform() * (max - min).max(0.0))
            .await;
        if !self.config_mode.is_empty() && context.acts("configure") {
            let changed = context
                .system_transaction(async |transaction| {
                    let mut metadata = Metadata::default();
                    for mutation in Configuration::SINGLE.write() {
                        let key = mutation.param1.clone();
                        if let Some(value) = transaction.get(key, false).await? {
                            metadata.apply(&crate::proto::Mutation {
                                param2: value,
                                ..mutation
                            });
                        }
                    }
                    let mut configuration = Configuration::read(&metadata);
                    let known = configuration.configure(&self.config_mode);
                    known.expect("checked when the options were read");
                    for mutation in context.saboteur.fitting(configuration).write() {
                        transaction.set(mutation.param1, mutation.param2);
                    }
                    Ok(())
                })
                .await;
            if changed.is_ok() {
                context.trigger_recovery();
            }
        }
        if !self.coordinators.is_empty() {
            // All a client notices of a change of coordinators is the recovery.
            for change in 0..self.coordinator_changes {
                if change > 0 {
                    context.sleep(COORDINATOR_PAUSE).await;
                }
                context.trigger_recovery();
            }
        }
    }
}
