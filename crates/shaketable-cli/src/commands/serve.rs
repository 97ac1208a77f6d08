//! `serve`: one embedded database for several processes.

use crate::args::ServeArgs;
use crate::seed;
use crate::{exit_codes, with_causes};
use shaketable_serve::{Faults, Place, ServeError, Settings, Stop};
use std::path::Path;

/// Serves until it is interrupted.
pub fn serve(args: &ServeArgs) -> u8 {
    let stop = Stop::default();
    let interrupted = stop.clone();
    // It fails only if there is a handler already, and there is none.
    let _ = ctrlc::set_handler(move || interrupted.stop());
    let served = settings(args)
        .and_then(|settings| shaketable_serve::run(&settings, &stop, || announce(&settings)));
    match served {
        Ok(()) => exit_codes::PASSED,
        Err(error) => {
            anstream::eprintln!("error: {}", with_causes(&error));
            exit_codes::SETUP_FAILED
        }
    }
}

fn settings(args: &ServeArgs) -> Result<Settings, ServeError> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| ServeError::Io {
            path: path.to_owned(),
            source,
        })
    };
    let cluster_file = absolute(&args.cluster_file)?;
    let place = match &args.socket {
        Some(socket) => Place::new(absolute(socket)?)?,
        None => Place::of_cluster_file(&cluster_file)?,
    };
    let variable = |name: &str| std::env::var(name).ok();
    Ok(Settings {
        place,
        cluster_file,
        durable: args.durable.as_deref().map(absolute).transpose()?,
        faults: Faults::read(variable, || seed::random().0)?,
    })
}

fn announce(settings: &Settings) {
    let file = settings.cluster_file.display();
    anstream::println!("serving at {}", settings.place);
    anstream::println!("  export FDB_CLUSTER_FILE={file}");
    if settings.faults.are_on() {
        anstream::println!("with faults: {}", settings.faults);
    }
    match &settings.durable {
        Some(folder) => anstream::println!(
            "Interrupt to stop. The database stays in {}.",
            folder.display()
        ),
        None => anstream::println!("Interrupt to stop: the database is gone with the server."),
    }
}
