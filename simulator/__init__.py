"""A fleet of fake Functions hosts: it runs an app that uses `singleton`, breaks the hosts, and judges what they did."""
