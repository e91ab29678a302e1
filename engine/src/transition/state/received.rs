//! Signals and updates, from their receipt to the wait that gets them.

use coord_core::TraceContext;

use super::RunState;
use super::op::Channel;
use crate::model::{Event, EventKind, OpKind, Payload, RequestId, TypeName, events};

/// What a signal or an update brought along.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Carried {
    request: RequestId,
    trace: Option<TraceContext>,
    payload: Option<Payload>,
}

impl RunState {
    /// Keeps what was received as `event`, for the wait that gets it.
    pub(super) fn receive(
        &mut self,
        (kind, name): (OpKind, &TypeName),
        (request, trace): (&RequestId, Option<&TraceContext>),
        event: &Event,
    ) {
        let carried = Carried {
            request: request.clone(),
            trace: trace.cloned(),
            payload: event.payload.clone(),
        };
        self.carried.insert(event.seq, carried);
        self.requests.insert(request.clone());
        let name = name.clone();
        let channel = self.buffered.entry(Channel { kind, name });
        channel.or_default().push_back(event.seq);
    }

    /// What was received as event `received`, for the wait that gets it.
    pub(super) fn hand_over(&mut self, received: u64) -> Option<Payload> {
        for waiting in self.buffered.values_mut() {
            waiting.retain(|seq| *seq != received);
        }
        let carried = self.carried.remove(&received);
        carried.and_then(|carried| carried.payload)
    }

    /// The event with which a wait gets its signal or update next, and the wait: of one name, the
    /// oldest of each.
    pub(in crate::transition) fn next_match(&self) -> Option<(u64, EventKind)> {
        let pairs = self.waits.iter().filter_map(|(channel, waits)| {
            let received = *self.buffered.get(channel)?.front()?;
            Some((*waits.front()?, received, channel.kind))
        });
        let (wait, received, kind) = pairs.min()?;
        let applied = match kind {
            OpKind::Update => EventKind::UpdateApplied(events::UpdateApplied {
                received,
                request: self.carried.get(&received)?.request.clone(),
            }),
            _ => EventKind::SignalApplied(events::SignalApplied { received }),
        };
        Some((wait, applied))
    }

    /// The signals and updates that no wait got, in order, as events of the run that continues this
    /// one.
    pub(in crate::transition) fn left_over(&self) -> Vec<(EventKind, Option<Payload>)> {
        let mut left: Vec<_> = self
            .buffered
            .iter()
            .flat_map(|(channel, received)| received.iter().map(move |seq| (*seq, channel)))
            .collect();
        left.sort_unstable();
        left.into_iter()
            .filter_map(|(seq, channel)| {
                let Carried {
                    request,
                    trace,
                    payload,
                } = self.carried.get(&seq)?.clone();
                let name = channel.name.clone();
                let kind = match channel.kind {
                    OpKind::Update => EventKind::UpdateAccepted(events::UpdateAccepted {
                        name,
                        request,
                        trace,
                    }),
                    _ => EventKind::SignalReceived(events::SignalReceived {
                        name,
                        request,
                        trace,
                    }),
                };
                Some((kind, payload))
            })
            .collect()
    }
}
