"""Functions with ``@once`` alone, each with another answer for a request whose operation another does."""

import time

import azure.functions as func

from singleton import once

app = func.FunctionApp()


@app.route(route="charges", methods=["POST"])
@once(key="{headers.Idempotency-Key}", on_contention="conflict")
def charge(req: func.HttpRequest) -> func.HttpResponse:
    time.sleep(0.5)
    return func.HttpResponse("charged", status_code=201)


@app.route(route="payments", methods=["POST"])
@once(key="{headers.Idempotency-Key}", on_contention="raise")
def pay(req: func.HttpRequest) -> func.HttpResponse:
    time.sleep(0.5)
    return func.HttpResponse("paid", status_code=201)


@app.route(route="refunds", methods=["POST"])
@once(key="{headers.Idempotency-Key}", timeout=1)
def refund(req: func.HttpRequest) -> func.HttpResponse:
    time.sleep(3)
    return func.HttpResponse("refunded", status_code=201)
