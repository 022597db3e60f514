"""Sessions: a simulation on one side, a dispatcher on the other, in process or over ZeroMQ."""

from parley_server.host.inprocess import Decider, run_in_process
from parley_server.host.session import Offer, Session, Sink

__all__ = ["Decider", "Offer", "Session", "Sink", "run_in_process"]
