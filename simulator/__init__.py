"""A fleet of fake Functions hosts that runs, breaks and judges an app which uses `singleton`."""
