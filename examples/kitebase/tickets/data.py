"""The tickets of the support desk."""

from tickets.models import Ticket

TICKETS = [
    Ticket("KITE-138", "CSV export drops the last row", "Harbour Bank", "closed"),
    Ticket("KITE-139", "SSO logout leaves the session open", "Harbour Bank", "closed"),
    Ticket("KITE-140", "Board is slow with 500 cards", "Lumen Studio", "in_progress"),
    Ticket("KITE-141", "Wrong time zone in reminders", "Northwind Air", "open"),
    Ticket("KITE-142", "Add SSO for contractors", "Northwind Air", "in_progress"),
    Ticket("KITE-143", "Dark theme for the calendar", "Lumen Studio", "open"),
    Ticket("KITE-144", "SSO login loops on Safari", "Petrol & Pine", "open"),
    Ticket("KITE-145", "Invoice shows the old address", "Petrol & Pine", "closed"),
]
