"""The submit page in a real browser: form and text are one draft, and nothing of a file is lost unsaid."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, Request, expect

from tests.support.cluster import Cluster

from .conftest import ask

FILE = """\
# nightly, ask bea before a change
version: 1
name: nightly
defaults:                 # shared
  image: scripted
  timeout: 10m
tasks:
  - name: prepare         # first
    command: 'true'
    env: {DEBUG: "no", WHEN: yes}
  - name: train
    needs: [prepare]      # both ways
    command: [python3, train.py, "1.10"]
    resources: {cpus: 1.50}
"""


def test_form_and_text_are_one_draft_and_comments_stay(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    editor = page.get_by_label("Job file")
    page.get_by_label("Job name").fill("typed in the form")
    page.get_by_role("tab", name="YAML").click()
    expect(editor).to_have_value(re.compile("name: typed in the form"))
    editor.fill(FILE)
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("Job name")).to_have_value("nightly")
    train = page.locator("fieldset.task-fields", has=page.get_by_text("train", exact=True)).last
    expect(train.get_by_label("CPUs")).to_have_value("1.50")
    expect(train.get_by_label("Timeout")).to_have_attribute("placeholder", "10m")
    expect(train.get_by_label("Image", exact=True)).to_have_attribute("placeholder", "scripted (of all tasks)")
    prepare = page.locator("fieldset.task-fields").nth(1)
    expect(prepare.get_by_label("Variable value").nth(1)).to_have_value("yes")

    # Each message at its field, in the folded part too, and what has none above.
    page.get_by_label("Job name").fill("n" * 101)
    train.get_by_text("More", exact=True).click()
    train.get_by_label("Size of its log").fill("8G")
    train.get_by_label("Retries").fill("99")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("4 problems, marked at their places")
    told = {
        page.get_by_label("Job name"): "101 characters",
        train.get_by_label("Size of its log"): "8G",
        train.get_by_label("Retries"): "20",
        prepare.get_by_label("Variable value").nth(1): "without quotes",
    }
    for field, message in told.items():
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.locator(f"[id='{field.get_attribute('aria-describedby')}']")).to_contain_text(message)
    expect(page.locator("main > .problems")).to_have_count(0)
    shoot(page, "submit-messages")
    page.get_by_label("Job name").fill("nightly run")
    train.get_by_label("Size of its log").fill("8GiB")
    train.get_by_label("Retries").fill("2")
    prepare.get_by_label("Variable value").nth(1).press_sequentially("!")
    prepare.get_by_label("Variable value").nth(1).press("Backspace")
    expect(page.locator("[aria-invalid]")).to_have_count(0)  # said of what is no longer there

    # A task that needs others can be looked at, too.
    train.get_by_label("CPUs").focus()
    starts = page.get_by_role("region", name="When it would start")
    expect(starts.get_by_role("note")).to_contain_text("If they had ended already: It would start at once.")
    shoot(page, "submit-one-draft")

    page.get_by_role("tab", name="YAML").click()
    expected = (
        FILE.replace("name: nightly", "name: nightly run")
        .replace("WHEN: yes", 'WHEN: "yes"')
        .replace("    resources: {cpus: 1.50}\n", "    resources: {cpus: 1.50}\n    retries: 2\n    log_limit: 8GiB\n")
    )
    expect(editor).to_have_value(expected)

    # What the form can't show stays a text, and says why.
    editor.fill(expected + "tasks: []\n")
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_role("alert")).to_contain_text("The key 'tasks' is written twice")
    expect(editor).to_have_value(expected + "tasks: []\n")
    editor.fill(expected + "nproc: 3\n")
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_role("note").first).to_contain_text("The form has no field for 'nproc'.")
    page.get_by_role("tab", name="YAML").click()
    editor.fill(expected)
    page.reload()
    expect(editor).to_have_value(expected)
    page.get_by_role("tab", name="Form").click()
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/api/v1/jobs") else None)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    assert [one.post_data for one in sent if one.method == "POST"] == [expected]

    # A clone makes room for itself without losing what is there.
    job = page.url.rpartition("/")[2]
    headway.client.act("cancel", job)
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Job name").fill("half written")
    page.goto(f"/submit/{job}")
    expect(editor).to_have_value(re.compile("nightly run"))
    page.get_by_role("button", name="Take it instead").click()
    expect(editor).to_have_value(re.compile("half written"))
    assert ask(headway, "GET", f"/jobs/{job}").json()["name"] == "nightly run"


def test_a_file_of_thousands_of_tasks_leaves_the_page_quick(page: Page) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_role("tab", name="YAML").click()
    tasks = "".join(f"  - name: t{i}\n    image: scripted\n    command: 'true'\n    timeout: 1m\n" for i in range(2000))
    file = {"name": "many.yaml", "mimeType": "text/yaml", "buffer": f"name: many\ntasks:\n{tasks}".encode()}
    page.locator('main input[type="file"]').set_input_files([file])  # type: ignore[list-item]
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_role("alert")).to_contain_text("The file has 2,000 tasks; the form shows up to 100.")
    longest = page.evaluate(
        """async () => {
            const area = document.querySelector('textarea');
            const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;
            let longest = 0;
            for (let i = 0; i < 10; i++) {
                const start = performance.now();
                set.call(area, area.value + 'x');
                area.dispatchEvent(new Event('input', {bubbles: true}));
                await new Promise(done => setTimeout(done));
                longest = Math.max(longest, performance.now() - start);
            }
            return longest;
        }"""
    )
    assert longest < 2000, "a key used to wait for the whole file"


def test_nothing_of_a_draft_goes_by_a_key_a_name_or_a_clone(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    whole = FILE.replace("WHEN: yes", "WHEN: 'yes'")
    sent: list[Request] = []
    page.on("request", lambda one: sent.append(one) if one.method == "POST" and one.url.endswith("/jobs") else None)
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_role("tab", name="YAML").click()
    editor = page.get_by_label("Job file")
    editor.fill(whole)

    # Tab is typed like any key: the browser takes it back, and the caret is where it was.
    editor.press("Control+End")
    editor.press_sequentially("#")
    for key in ("Tab", "x", "Tab", "y", "Tab", "z"):
        page.keyboard.press(key)
    expect(editor).to_have_value(whole + "#  x  y  z")
    for _ in range(20):
        editor.press("Control+z")
    expect(editor).to_have_value(re.compile("^(?!.*  x)", re.DOTALL))
    editor.fill(whole)

    # A name on the way to another one leaves the needs of others alone.
    page.get_by_role("tab", name="Form").click()
    names = page.get_by_label("Task name")
    names.nth(0).press("End")
    names.nth(0).press_sequentially("-1")
    page.get_by_role("button", name="Add a task").click()
    names.nth(2).fill("")
    names.nth(2).press_sequentially("prepare-12")  # with prepare-1 on the way
    names.nth(2).press("Backspace")
    names.nth(2).press_sequentially("3")
    names.nth(0).press("Enter")  # sends nothing
    page.get_by_role("button", name=re.compile("^Remove this task")).nth(0).click()
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    shoot(page, "submit-undo")
    undo.click()
    page.get_by_role("tab", name="YAML").click()
    expect(editor).to_have_value(re.compile(r"needs: \[prepare-1\] +# both ways"))
    expect(editor).to_have_value(re.compile(r"- name: prepare-13\n"))
    page.get_by_role("tab", name="Form").click()
    assert not sent

    # The last one is removed again; Ctrl+Enter sends.
    page.get_by_role("button", name=re.compile("^Remove this task")).nth(2).click()
    page.get_by_label("Job name").press("Control+Enter")
    expect(page).to_have_url(re.compile("/jobs/"))
    assert len(sent) == 1
    job = page.url.rpartition("/")[2]
    headway.client.act("cancel", job)

    # A second clone of the same job comes as well, and all that was put aside for it is there.
    for name in ("first", "second"):
        page.get_by_role("link", name="Submit", exact=True).click()
        page.get_by_role("tab", name="YAML").click()
        editor.fill(f"name: {name}\n")
        page.goto(f"/jobs/{job}")
        page.get_by_role("link", name="Clone").click()
        expect(editor).to_have_value(re.compile("prepare-1"))
        page.get_by_role("button", name="Take it instead").first.click()
        expect(editor).to_have_value(f"name: {name}\n")
        page.reload()
        expect(editor).to_have_value(f"name: {name}\n")
    expect(page.get_by_role("note")).to_contain_text("put aside for this one: nightly")

    # What can't be read, or kept, says so.
    opened = page.locator('main input[type="file"]')
    latin = {"name": "latin.yaml", "mimeType": "text/yaml", "buffer": "name: caf\u00e9\n".encode("latin-1")}
    opened.set_input_files([latin])  # type: ignore[list-item]
    expect(page.get_by_role("alert")).to_contain_text("line 1, column 10: the byte 0xE9 is not UTF-8.")
    large = {"name": "large.yaml", "mimeType": "text/yaml", "buffer": b"# " + b"x" * 5_500_000}
    opened.set_input_files([large])  # type: ignore[list-item]
    expect(page.get_by_role("alert")).to_contain_text("too large to be kept in this tab")
    expect(page.get_by_role("note")).to_contain_text(
        ["put aside for this one: second", "put aside for this one: nightly"]
    )
    shoot(page, "submit-large")
