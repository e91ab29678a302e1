"""The client half of the published SDK, unmodified, against the node at argv[1]."""

import asyncio
import sys
import uuid

from durable_workflow import Client
from durable_workflow.client import ScheduleAction, ScheduleSpec
from durable_workflow.errors import (
    NamespaceNotFound,
    QueryFailed,
    ScheduleNotFound,
    UpdateFailed,
    WorkflowAlreadyStarted,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowTerminated,
)


async def refused(error, call):
    try:
        await call
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")


async def start(client, workflow_type, workflow_id, *arguments, **options):
    return await client.start_workflow(
        workflow_type=workflow_type,
        task_queue="default",
        workflow_id=workflow_id,
        input=list(arguments),
        **options,
    )


async def workflows(client):
    value = {"text": "ä", "list": [1, -2.5, None, True], "n": 2**40}
    echo = await start(client, "tests.echo", "echo", value, memo={"about": "sdk"})
    assert await client.get_result(echo) == value
    described = await client.describe_workflow("echo")
    assert described.status == "completed" and described.output == value, described
    assert described.input == [value] and described.memo == {"about": "sdk"}, described
    assert described.run_id == echo.run_id and described.workflow_type == "tests.echo"
    await refused(WorkflowAlreadyStarted, start(client, "tests.echo", "echo"))
    await refused(WorkflowNotFound, client.describe_workflow("none"))

    failing = await start(client, "tests.failing", "failing")
    await refused(WorkflowFailed, client.get_result(failing))

    runs = await client.list_workflow_runs("echo")
    assert runs.run_count == 1 and runs.runs[0].run_id == echo.run_id, runs
    run = await client.describe_workflow_run("echo", echo.run_id)
    assert run.is_current_run and run.closed_reason == "completed", run
    history = await client.get_history("echo", echo.run_id, page_size=1)
    assert history["events"][0]["event_type"] == "WorkflowStarted" and history["next_page_token"]


async def commands(client):
    adding = await start(client, "tests.adding", "adding", 1)
    same = await start(client, "tests.adding", "adding", 1, duplicate_policy="use-existing")
    assert same.run_id == adding.run_id
    updated = await client.update_workflow("adding", "add", args=[4], wait_for="completed")
    assert updated["result"] == 5, updated
    await refused(
        UpdateFailed, client.update_workflow("adding", "add", args=[101], wait_for="completed")
    )
    asked = await client.query_workflow("adding", "total")
    assert asked["result"] == 5, asked
    await refused(QueryFailed, client.query_workflow("adding", "weather"))
    key = str(uuid.uuid4())
    first = await client.signal_workflow("adding", "done", args=["me"], request_id=key)
    again = await client.signal_workflow("adding", "done", args=["me"], request_id=key)
    assert not first["retained"] and again["retained"], (first, again)
    assert await client.get_result(adding) == 5

    cancelled = await start(client, "tests.adding", "cancelled", 1)
    await client.cancel_workflow("cancelled", reason="no more")
    await refused(WorkflowCancelled, client.get_result(cancelled))
    terminated = await start(client, "tests.adding", "terminated", 1)
    await client.terminate_workflow("terminated", reason="no more")
    await refused(WorkflowTerminated, client.get_result(terminated))


async def lists(client):
    found, token = [], None
    while True:
        page = await client.list_workflows(
            workflow_type="tests.adding", page_size=1, next_page_token=token
        )
        found += [it.workflow_id for it in page.executions]
        token = page.next_page_token
        if token is None:
            break
    assert found == ["terminated", "cancelled", "adding"], found
    page = await client.list_workflows(status="cancelled")
    assert [it.workflow_id for it in page.executions] == ["cancelled"], page


async def schedules(client):
    action = ScheduleAction(workflow_type="tests.echo", task_queue="default", input=["report"])
    spec = ScheduleSpec(cron_expressions=["0 3 * * *"], timezone="Europe/Berlin")
    handle = await client.create_schedule(
        schedule_id="nightly", spec=spec, action=action, paused=True, note="not yet"
    )
    described = await client.describe_schedule("nightly")
    assert described.status == "paused" and described.note == "not yet", described
    await client.resume_schedule("nightly", note="go")
    await client.update_schedule("nightly", overlap_policy="allow_all")
    fired = await client.trigger_schedule("nightly")
    assert fired.outcome == "triggered" and fired.workflow_id, fired
    page = await client.get_schedule_history("nightly")
    assert [it.workflow_instance_id for it in page.events] == [fired.workflow_id], page
    await client.backfill_schedule(
        "nightly", start_time="2025-01-01T00:00:00Z", end_time="2025-01-02T00:00:00Z"
    )
    listed = await client.list_schedules()
    assert [it.schedule_id for it in listed.schedules] == [handle.schedule_id], listed
    assert listed.schedules[0].fires_count >= 1 and listed.schedules[0].next_fire_at, listed
    await client.pause_schedule("nightly")
    await client.delete_schedule("nightly")
    await refused(ScheduleNotFound, client.describe_schedule("nightly"))


async def found(look):
    """What look() gives once it is something: workers make themselves known in a moment."""
    while not (it := await look()):
        await asyncio.sleep(0.02)
    return it


async def operators(client):
    created = await client.create_namespace("shop", description="orders", retention_days=7)
    assert created.name == "shop" and created.retention_days == 7, created
    changed = await client.update_namespace("shop", retention_days=14)
    assert changed.retention_days == 14 and changed.description == "orders", changed
    described = await client.describe_namespace("shop")
    assert described.description == "orders" and described.status == "active", described
    listed = await client.list_namespaces()
    assert "shop" in [it.name for it in listed.namespaces], listed
    await refused(NamespaceNotFound, client.describe_namespace("none"))

    async def workers():
        return (await client.list_workers(task_queue="default", status="active")).workers

    (worker,) = await found(workers)
    described = await client.describe_worker(worker.worker_id)
    assert described.task_queue == "default" and described.last_heartbeat_at, described
    queues = await client.list_task_queues()
    assert [it.name for it in queues.task_queues] == ["default"], queues
    queue = await client.describe_task_queue("default")
    assert queue.stats["pollers"]["active_count"] == 1, queue
    assert [it["worker_id"] for it in queue.pollers] == [worker.worker_id], queue

    status = await client.repair_status()
    assert status["candidates"]["existing_task_candidates"] == 0, status
    for options in ({}, {"instance_id": "echo"}, {"run_ids": ["none"]}):
        repaired = await client.repair_pass(**options)
        assert repaired["repaired_missing_tasks"] == 0, repaired
    status = await client.retention_status()
    assert status["expired_run_ids"] == [] and status["retention_days"] == 30, status
    assert (await client.retention_pass())["processed"] == 0
    assert (await client.activity_timeout_status())["expired_count"] == 0
    assert (await client.activity_timeout_pass())["enforced"] == 0


async def main():
    url, token = sys.argv[1:]
    async with Client(url, token=token) as client:
        await client.health()
        for part in (workflows, commands, lists, schedules, operators):
            await part(client)


asyncio.run(main())
