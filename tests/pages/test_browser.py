"""A page in a real browser: it loads, its controls do what they say, nothing complains and nothing is asked for.

One browser for all of it: to start one is most of what this costs.
"""

import json
import shutil
import time
from pathlib import Path

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --disable-default-apps --no-first-run --disable-quic --disable-dev-shm-usage --window-size=1000,900"
)
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")


@pytest.fixture
def browser(tmp_path):
    """Headless, with a profile of its own, which notes what it is asked for and what it complains of."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium with chromedriver here: pages were not looked at in a browser")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    found.set_script_timeout(30)
    found.get("about:blank")
    found.get_log("performance")  # what its own first page asked for: from here on all is the page's
    yield found
    found.quit()


def soon(what) -> bool:
    """Whether it comes true within a minute: a browser draws when it has time, on a busy machine late."""
    end = time.monotonic() + 60
    while not (found := bool(what())) and time.monotonic() < end:
        time.sleep(0.1)
    return found


CHART = "const chart = document.querySelectorAll('.js-plotly-plot')[arguments[0]]; "


def test_a_page_loads_answers_and_asks_for_nothing(browser, made):
    page = made / "report.html"
    browser.get(page.as_uri())
    run = browser.execute_script
    of = lambda words, k=0: run(CHART + words, k)
    assert run("return document.querySelectorAll('.js-plotly-plot .main-svg').length") >= 6

    every = "const charts = [...document.querySelectorAll('.js-plotly-plot')]; "
    widths = (
        "return charts.map(c => Math.abs(c.clientWidth - c.querySelector('.main-svg').getBoundingClientRect().width))"
    )
    fits = lambda: max(run(every + widths)) <= 1
    assert soon(fits), "each chart is as wide as its place, also of those that stand side by side"

    press = CHART + (
        "const find = () => [...chart.querySelectorAll('.updatemenu-button, .updatemenu-dropdown-button')]"
        ".find(b => b.textContent === arguments[1]); find().dispatchEvent(new MouseEvent('click', {bubbles: true}));"
    )
    axis = "return chart.layout.xaxis.title.text"
    assert of(axis) == "communication rounds"
    rounds = of("return chart.data[2].x.slice()")
    run(press, 0, "seconds")
    assert of(axis) == "simulated seconds"
    assert of("return chart.data[2].x.slice()") == rounds, "two synchronisations of half a second each"
    run(press, 0, "samples")
    assert of("return chart.data[2].x.slice(-1)[0]") == 48
    run(press, 0, "linear")
    assert of("return chart.layout.yaxis.type") == "linear"

    grid = run(every + "return charts.findIndex(c => c.layout.sliders)")
    last = of("return JSON.stringify(chart.data[1].x)", grid)
    slide = CHART + "const touch = chart.querySelector('.slider-rail-touch-rect').getBoundingClientRect(); "
    touch = run(slide + "return [touch.left + 2, touch.top + touch.height / 2 + window.scrollY]", grid)
    run("window.scrollTo(0, arguments[0] - 300)", touch[1])
    at = run(slide + "return [touch.left + 2, touch.top + touch.height / 2]", grid)
    for kind in ("mousePressed", "mouseReleased"):
        place = {"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", place)
    begun = "return chart.layout.sliders[0].active === 0 && JSON.stringify(chart.data[1].x)"
    moved = lambda: (found := of(begun, grid)) and found != last
    assert soon(moved), "the slider leads to the first round, where nothing has been learned"

    colours = {}
    for theme in ("light", "dark"):
        wish = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
        ink = "const look = getComputedStyle; const text = chart.querySelector('.xtick text'); "
        ink += "return [look(document.body).backgroundColor, look(text).fill]"
        colours[theme] = of(ink)
    assert colours["light"] != colours["dark"]
    assert all(paper != text for paper, text in colours.values())
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    wide = lambda: run("return document.documentElement.scrollWidth")
    assert soon(lambda: wide() <= 390), f"{wide()} pixels: something stands out of a phone's page"
    assert soon(fits), "a chart is cut off instead of drawn anew"

    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert Path(page).as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
