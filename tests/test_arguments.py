"""Arguments of plan and apply are checked before any request."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shop import snapshot_of

import petsync as ps
from petsync.apply.options import (
    ApplyKeywords,
    ApplyOptions,
    UploadKeywords,
    UploadOptions,
)
from petsync.plan.guard import Limit
from petsync.plan.options import PlanKeywords, PlanOptions
from petsync.sandbox import Sandbox
from petsync.store.async_store import AsyncStore

NAN = float("nan")
# Wrong values are given to them.
Pet: Any = ps.Pet
Tag: Any = ps.Tag
Category: Any = ps.Category
TagName: Any = ps.types.TagName
RetryPolicy: Any = ps.RetryPolicy
_TWO_LIMITS = ps.Guard(max_delete=Limit(25, is_share=False), max_update=Limit(0.1))
ONE = pd.DataFrame([{"id": 1, "name": "Max"}])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit(-1),
        lambda: Limit(float("nan")),
        lambda: Limit(10),
        lambda: Limit("x"),  # type: ignore[arg-type]
        lambda: RetryPolicy(attempts=0),
        lambda: RetryPolicy(attempts=1.5),
        lambda: RetryPolicy(seconds=-1),
        lambda: RetryPolicy(first=float("nan")),
        lambda: RetryPolicy(longest="x"),
        lambda: Limit.parse("150%", "--max-delete"),
        lambda: Limit.parse("ten", "--max-delete"),
        lambda: ps.Guard(max_delete=5),  # type: ignore[arg-type]
        lambda: ps.Guard(max_update=None),  # type: ignore[arg-type]
    ],
)
def test_a_limit_that_would_switch_the_guard_off_is_refused(make: Callable[[], object]) -> None:
    """A limit that would turn the guard off is refused, such as ten as a share: 1,000 percent; and
    so is a policy without an attempt, or with a time that is none.
    """
    with pytest.raises(ps.errors.SettingsError):
        make()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"match_on": ["zzz"]}, ps.errors.SettingsError),
        ({"match_on": "id"}, ps.errors.SettingsError),
        ({"guard": 5}, ps.errors.SettingsError),
        ({"guard": None}, ps.errors.SettingsError),
        ({"on_conflict": "shop"}, ps.errors.SettingsError),
        ({"max_delete": 0.1}, ps.errors.SettingsError),
        ({"max_delete": False}, ps.errors.SettingsError),
        ({"delete_missing": "no"}, ps.errors.SettingsError),
        ({"max_update": "many"}, ps.errors.SettingsError),
        ({"sentinels": 7}, ps.errors.SettingsError),
        ({"max_deletes": 5}, TypeError),
        ({"snapshot": ONE}, ps.errors.PlanError),
        ({"snapshot": snapshot_of([])}, ps.errors.PlanError),
        ({"sheet": None}, ps.errors.SheetError),
        ({"sheet": 5}, ps.errors.SheetError),
        ({"sheet": b"id,name"}, ps.errors.SheetError),
    ],
)
def test_plan_says_what_it_takes(arguments: dict[str, Any], error: type[Exception]) -> None:
    """A wrong argument of `plan` raises a typed error."""
    with Sandbox(auth=False) as box, ps.connect(box.url, environ={}) as store:
        given = {"sheet": ONE, **arguments}
        with pytest.raises(error):
            store.plan(given.pop("sheet"), **given)
        assert store.plan(ONE, match_on="name").rows == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"plan": None},
        {"plan": ONE},
        {"concurrency": 0},
        {"concurrency": 1000},
        {"concurrency": "4"},
        {"rate": 0},
        {"rate": -1},
        {"rate": float("nan")},
    ],
)
def test_apply_says_what_it_takes_and_keeps_the_plan(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    """A wrong argument of `apply` sends nothing and does not use up the plan."""
    pet = ps.Pet(id=1, name="Rex", status="sold")
    with (
        Sandbox(auth=False, pets=[pet]) as box,
        ps.connect(box.url, environ={}, state=tmp_path) as store,
    ):
        plan = store.plan(ONE)
        given = {"plan": plan, **arguments}
        with pytest.raises(ps.errors.PetsyncError):
            store.apply(given.pop("plan"), **given)
        assert box.pets() == [pet]
        assert store.apply(plan).counts["applied"] == 1


@pytest.mark.parametrize(
    ("keywords", "guard"),
    [
        (
            {"max_delete": 25, "max_update": "10%"},
            ps.Guard(max_delete=Limit(25, is_share=False), max_update=Limit(0.1)),
        ),
        ({"max_add": "40"}, ps.Guard(max_add=Limit(40, is_share=False))),
        ({"max_delete": 0}, ps.Guard(max_delete=Limit(0, is_share=False))),
        ({"max_delete": Limit(0.5)}, ps.Guard(max_delete=Limit(0.5))),
        ({"sentinels": [1], "allow_empty": True}, ps.Guard(sentinels=(1,), allow_empty=True)),
        ({"max_delete": None, "allow_shifted": False}, ps.Guard()),
    ],
)
def test_limits_are_given_as_on_the_command_line(keywords: dict[str, Any], guard: ps.Guard) -> None:
    """Each limit is a keyword of `plan`, with a number, a text or a Limit; an edit has its own."""
    pet = ps.Pet(id=1, name="Rex", status="sold")
    with Sandbox(auth=False, pets=[pet]) as box, ps.connect(box.url, environ={}) as store:
        assert store.plan(ONE, **keywords).guard == guard
        edit = store.edit(1, name="Max", max_update="10%")
        assert edit.guard == ps.Guard(max_update=Limit(0.1))


@pytest.mark.parametrize("call", ["plan", "why", "edit", "undo"])
def test_single_limits_do_not_go_with_a_guard(call: str) -> None:
    """A guard and a single limit contradict each other: the error names both."""
    sheet = {"plan": [ONE], "why": [ONE, 1], "edit": [1], "undo": []}[call]
    with Sandbox(auth=False) as box, ps.connect(box.url, environ={}) as store:
        before = box.requests
        with pytest.raises(ps.errors.SettingsError, match="guard and max_update are both given"):
            getattr(store, call)(*sheet, guard=ps.Guard(), max_update=5)
        assert box.requests == before


@pytest.mark.parametrize(
    ("call", "keyword"),
    [("edit", "max_delete"), ("edit", "allow_shifted"), ("undo", "allow_shifted")],
)
def test_a_limit_without_effect_is_no_keyword(call: str, keyword: str) -> None:
    """An edit and an undo refuse the limits that they cannot reach."""
    first = 1 if call == "edit" else ""
    with ps.demo() as store, pytest.raises(TypeError, match=f"{call}.*{keyword}"):
        getattr(store, call)(first, **{keyword: 1})


@pytest.mark.parametrize(
    ("call", "given", "says"),
    [
        ("plan", {}, "Store.plan() missing a required argument: 'sheet'"),
        ("plan", {"max_delet": 1}, "Store.plan() missing a required argument: 'sheet'"),
        ("undo", {"max_delet": 1}, "Store.undo() got an unexpected keyword argument 'max_delet'"),
        ("apply", {"plan": 1, "retries": 2}, "Store.apply() got an unexpected keyword"),
        ("read", {"sheet": "a.csv", "tabs": 1}, "Store.read() got an unexpected keyword"),
    ],
)
def test_a_wrong_argument_names_the_public_method(
    call: str, given: dict[str, object], says: str
) -> None:
    """A missing or unknown argument of a method names it as the caller knows it."""
    with ps.demo() as store:
        with pytest.raises(TypeError, match=f"^{re.escape(says)}"):
            getattr(store, call)(**given)
        if inspect.iscoroutinefunction(getattr(AsyncStore, call)) and call == "plan":
            with pytest.raises(TypeError, match=f"^{re.escape('Async' + says)}"):
                asyncio.run(store.aio.plan(**given))


@pytest.mark.parametrize("value", [None, "June"])
def test_an_unknown_option_of_read_sheet_is_refused(tmp_path: Path, value: str | None) -> None:
    """A misspelled option is an error, whatever its value."""
    (tmp_path / "pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    with pytest.raises(TypeError, match=r"^read_sheet\(\) got an unexpected keyword .*'tabs'"):
        ps.read_sheet(tmp_path / "pets.csv", tabs=value)  # type: ignore[call-arg]


def test_too_many_arguments_are_named() -> None:
    """A method of the operations names itself too."""
    with (
        ps.demo() as store,
        pytest.raises(TypeError, match=r"^Api\.get_pet_by_id\(\) got too many"),
    ):
        store.api.get_pet_by_id(1, 2)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["tab", "encoding", "mapping"])
def test_an_option_of_files_is_refused_for_what_is_no_file(tmp_path: Path, name: str) -> None:
    """`read` refuses an option that cannot change a DataFrame, or a Sheet that is already read."""
    (tmp_path / "pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    option = {name: {"Nr": "id"} if name == "mapping" else "utf-8"}
    with ps.demo() as store:
        sheet = store.read(tmp_path / "pets.csv")
        with pytest.raises(ps.errors.SettingsError, match=f"{name} cannot apply to a Sheet"):
            store.read(sheet, **option)
        assert store.read(sheet, **{name: None}) is sheet
        if name != "mapping":
            with pytest.raises(ps.errors.SettingsError, match=f"{name} cannot apply to a DataF"):
                store.read(ONE, **option)
            with pytest.raises(ps.errors.SettingsError, match=f"{name} cannot apply to a Sheet"):
                store.pictures(sheet, column="name", **option)
        else:
            assert "id" in store.read(ONE.rename(columns={"id": "Nr"}), **option).rows


@pytest.mark.parametrize("option", [{"pattern": "{id}"}, {"recursive": True}])
def test_an_option_of_folders_is_refused_for_a_sheet(
    tmp_path: Path, option: dict[str, Any]
) -> None:
    """`pictures` refuses an option of folders if a column of a sheet names the files."""
    (tmp_path / "pets.csv").write_text("id,image\n1,a.png\n", "utf-8")
    says = f"{next(iter(option))} is valid only for a folder"
    with ps.demo() as store, pytest.raises(ps.errors.SettingsError, match=says):
        store.pictures(tmp_path / "pets.csv", column="image", **option)


def test_the_maximum_of_settle_is_that_of_the_command_line() -> None:
    """An argument `settle` has at most an hour; a longer timeout, its default, or a saved value
    stays, because an unanswered request could arrive that long.
    """
    with pytest.raises(ps.errors.SettingsError, match="settle is -1; it must be a number of"):
        ApplyOptions(settle=-1)
    for kind in (ApplyOptions, UploadOptions):
        assert kind.of({"settle": 7200.0}, {}).settle == 7200
        with pytest.raises(ps.errors.SettingsError, match="settle is 7200"):
            kind.of({"settle": 30.0}, {"settle": 7200})


def test_methods_of_a_store_are_what_they_seem() -> None:
    """Asynchronous methods are coroutine functions, also those of the store's parts; a method that
    returns a facade names it.
    """
    names = [name for name in dir(ps.Store) if not name.startswith("_") and name != "close"]
    waiting = [n for n in names if inspect.iscoroutinefunction(getattr(AsyncStore, n, None))]
    assert {"plan", "edit", "upload", "sign_in", "apply", "snapshot"} <= {*waiting}
    assert inspect.signature(ps.Store.begin_sign_in).return_annotation == "PendingSignIn"


@pytest.mark.parametrize(
    ("call", "values"), [("plan", PlanOptions), ("apply", ApplyOptions), ("upload", UploadOptions)]
)
def test_options_are_shown_as_keywords(
    call: str, values: type[PlanOptions | ApplyOptions | UploadOptions]
) -> None:
    """Each option of a method is in its signature with its default, and in its help text."""
    method = getattr(ps.Store, call)
    parameters = inspect.signature(method).parameters
    keywords = {"plan": PlanKeywords, "apply": ApplyKeywords, "upload": UploadKeywords}[call]
    assert keywords.__annotations__.keys() <= parameters.keys()
    assert "options" not in parameters
    for name in keywords.__annotations__:
        assert f"\n- `{name}`: " in method.__doc__
        if name in values.__struct_fields__ and name != "settle":
            assert parameters[name].default == getattr(values(), name)


def test_the_options_of_an_undo_do_not_mention_a_sheet() -> None:
    """An undo and an edit have no sheet, so their options do not describe one."""
    for method in (ps.Store.undo, ps.Store.edit):
        keywords = (method.__doc__ or "").partition("\n- `")[2]
        assert keywords
        assert "sheet" not in keywords


def test_each_option_of_a_plan_is_a_keyword() -> None:
    """The keywords of `plan` are the fields of its options and of its guard, and no others."""
    fields = {*PlanOptions.__struct_fields__, *ps.Guard.__struct_fields__}
    assert fields == {*PlanKeywords.__annotations__}
    assert {*ApplyKeywords.__annotations__} < {*ApplyOptions.__struct_fields__}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Pet(id=5, photo_urls="http://x/a"), "photo_urls of pet 5 is 'http://x/a', not"),
        (lambda: Pet(photo_urls=[5]), "photo_urls of a pet: 5 is not text"),
        (lambda: Pet(photo_urls=(b"a",)), "photo_urls of a pet: b'a' is not text"),
        (lambda: Pet(name="Rex", tags="calm"), "tags of the pet 'Rex' is 'calm', not a list"),
        (lambda: Pet(tags=Tag(1, "calm")), r"such as tags=\[Tag\(1, 'calm'\)\]"),
        (lambda: Pet(tags=NAN), "tags of a pet is nan, not a list"),
        (lambda: Pet(tags={"id": 1}), "tags of a pet is .*, not a list"),
        (lambda: Pet(tags=[NAN]), "tags of a pet: the name of a tag is nan, not text"),
        (lambda: Pet(tags=["calm", None]), "tags of a pet: None is not a tag"),
        (lambda: Pet(id=5, tags=np.array("calm")), "tags of pet 5 is array.*, not a list"),
        (lambda: Pet(category="Dogs"), r"ps.Category\(name='Dogs'\)"),
        (lambda: Pet(category=3), "the category of a pet is 3, not a Category"),
        (lambda: Pet(id=5, name=NAN), "the name of pet 5 is nan, not text"),
        (lambda: Pet(id=5, status=pd.NA), "the status of pet 5 is <NA>, not text"),
        (lambda: Pet(id="5"), "the id of a pet is '5', not a 64-bit integer"),
        (lambda: Pet(id=True, name="Rex", status="sold"), "the id of a pet is True"),
        (lambda: Pet(id=2**63, name="Rex", status="sold"), "the id of a pet is 92233"),
        (lambda: Pet(id=np.array([5])), "the id of a pet is array"),
        (lambda: Pet(extra=5), "the extra fields of a pet are 5, not a dict"),
        (lambda: Tag(8, NAN), "the name of a tag is nan, not text"),
        (lambda: Tag(8, 5), "the name of a tag is 5, not text"),
        (lambda: Tag("calm"), "the id of a tag is 'calm', not a 64-bit integer"),
        (lambda: Tag(2**63, "calm"), "the id of a tag 'calm' is 92233"),
        (lambda: Category(1, NAN), "the name of a category is nan, not text"),
        (lambda: TagName(5), "the name of a tag is 5, not text"),
    ],
)
def test_a_pet_has_values_of_its_types(make: Callable[[], object], says: str) -> None:
    """A value of another type never becomes a pet: no letters of a URL, and no missing value that
    would be sent as a text.
    """
    with pytest.raises(ps.errors.SettingsError, match=says) as refused:
        make()
    assert refused.value.hint


def test_a_pet_takes_the_values_of_a_dataframe() -> None:
    """A pet, a tag and a category take the integers, texts, arrays and tags of a DataFrame, and
    have Python's own.
    """
    plain = Pet(
        id=5,
        name="Rex",
        status="sold",
        category=Category(1, "Dogs"),
        tags=(Tag(7, "calm"), Tag(None, "shy")),
        photo_urls=("http://x/a", "http://x/b"),
    )
    names = [TagName(Tag(np.int64(7), "calm")), TagName("shy")]
    numbers = {"id": np.int64(5), "category": Category(np.uint8(1), "Dogs")}
    texts = {"name": np.str_("Rex"), "status": names[1].__class__("sold")}
    urls = ["http://x/a", np.str_("http://x/b")]
    for make in (list, np.array, pd.Series, pd.Index):
        pet = Pet(**numbers, **texts, tags=names, photo_urls=make(urls))
        assert pet == plain
        assert {type(pet.id), type(pet.category.id if pet.category else None)} == {int}
        assert {*map(type, (pet.name, pet.status, *pet.photo_urls))} == {str}
        assert repr(pet) == repr(plain)


def test_ids_of_a_dataframe_are_ids(tmp_path: Path) -> None:
    """Each method takes the integers of a DataFrame as ids; floats, texts and several ids where one
    is needed are refused before any request. Its numbers are options and unknown fields, too.
    """
    plain = Pet(id=7, name="Rex", status="sold")
    with (
        Sandbox(auth=False, pets=[plain]) as box,
        ps.connect(box.url, environ={}, state=tmp_path) as store,
    ):
        pets = store.pets()
        seven: Any = pets["id"].iloc[0]
        assert isinstance(seven, np.integer)
        api: Any = store.api
        edited = store.edit(seven, tags=np.array("a; b"))
        assert edited.changes[0].after.tags == (Tag(None, "a; b"),)
        numbers: dict[str, Any] = {
            "concurrency": np.int8(2),
            "max_failures": np.int64(3),
            "rate": np.float32(50),
            "settle": np.float64(1),
        }
        assert store.apply(store.plan(pets), **numbers).counts["unchanged"] == 1
        assert not store.serves(pd.NA)
        weight = api.update_pet(Pet(id=7, name="Rex", status="sold", extra={"kg": np.int64(4)}))
        assert weight.extra == {"kg": 4}
        api.update_pet(plain)
        assert store.edit(seven, name="Max", seen=api.get_pet_by_id(seven)).changes[0].pet_id == 7
        assert "Pet 7" in str(store.why(pets, seven))
        assert store.look_up(pets["id"]) == {7: plain}
        assert {*map(type, store.look_up(pets["id"]))} == {int}
        api.update_pet_with_form(seven, name="Max")
        assert api.upload_file(seven, b"x", filename="a.png").code == 200
        api.delete_pet(seven)
        assert box.pets() == []
        sent = box.requests.total()
        calls: list[Callable[[Any], object]] = [
            api.get_pet_by_id,
            api.delete_pet,
            store.edit,
            lambda wrong: store.why(pets, wrong),
            lambda wrong: store.look_up([wrong]),
            lambda wrong: store.pictures_of(wrong, "a.png"),
        ]
        for call in calls:
            for wrong in (7.0, "7", True, pd.NA, None, 2**63):
                with pytest.raises(ps.errors.PetsyncError, match="is not a"):
                    call(wrong)
        several: list[Any] = [[], [7, 8], pd.Series([7, 8])]
        for some in several:
            with pytest.raises(ps.errors.SettingsError, match="where one pet is needed"):
                store.edit(some)
        assert box.requests.total() == sent


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda api: api.update_pet_with_form(7, name=NAN), "name is nan, not text"),
        (lambda api: api.update_pet_with_form(7, status=5), "status is 5, not text"),
        (
            lambda api: api.add_pet(Pet(name="Rex", extra={"born": complex(1)})),
            "the extra fields of the pet have a value of the type complex",
        ),
        (lambda api: api.upload_file(7, 5), "uploadFile takes bytes or a path, not int"),
        (lambda api: api.upload_file(7, b"x", filename=5), "filename is 5, not text"),
        (
            lambda api: api.upload_file(7, b"x", additional_metadata=5),
            "additional_metadata is 5, not text",
        ),
    ],
)
def test_an_operation_sends_texts_as_they_are(call: Callable[[Any], object], says: str) -> None:
    """A missing value or a number is refused: no operation sends its Python form as a text."""
    with Sandbox(auth=False) as box, ps.connect(box.url, environ={}) as store:
        with pytest.raises(ps.errors.InvalidInputError, match=says):
            call(store.api)
        assert box.requests.total() == 0


_PATH = Path("pets.csv")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda store: ps.save_plan(ONE, "plan.json"), "a DataFrame is not a plan"),
        (lambda store: ps.save_plan(store.plan(ONE), 5), "an int is not a path"),
        (lambda store: ps.load_plan(ONE), "a DataFrame is not a path"),
        (lambda store: store.settle(5), "5 is not the id of a run"),
        (lambda store: store.check(ONE), "a DataFrame is not a plan"),
        (lambda store: store.snapshot(statuses=5), "takes strings, not int"),
        (lambda store: store.snapshot_to(5), "an int is not a path"),
        (lambda store: store.export_to("out", partitions="x"), "partitions='x' is not a number"),
        (lambda store: store.plan(ONE, match_on=5), "match_on is 5; it must be a list"),
        (lambda store: store.plan(ONE, on_conflict=np.array(["sheet"])), "on_conflict is array"),
        (lambda store: store.plan(ONE, scope=pd.NA), "scope is <NA>; it must be"),
        (lambda store: store.plan(ONE, strict="no"), "strict is 'no'; it must be True"),
        (lambda store: store.plan(ONE, memory=5), "memory=5 is not a size"),
        (lambda store: store.plan(ONE, rules=pd.NA), "a NAType is not a rule"),
        (lambda store: store.plan(ONE).resolve(pd.NA), "the choices are <NA>, not a dict"),
        (lambda store: store.pets(index=pd.NA), "index must be 'id' or None, not <NA>"),
        (lambda store: store.pets(index=np.array([1, 2])), "index must be 'id' or None, not array"),
        (
            lambda store: store.apply(store.plan(ONE), progress=np.array([1, 2])),
            "progress is array",
        ),
        (lambda store: store.read(_PATH, tab=pd.NA), "tab is <NA>, not the name of a worksheet"),
        (lambda store: ps.write_sheet(ONE, "a.xlsx", tab=pd.NA), "<NA> cannot be the name"),
        (lambda store: ps.connect(pd.NA), "the address is <NA>, not text"),
        (lambda store: ps.connect(np.array(["a", "b"])), "the address is array"),
        (lambda store: ps.diff(ONE, ONE, match_on=pd.NA), "match_on is <NA>; it must be a list"),
        (lambda store: ps.rehearse(store, store.plan(ONE), faults=5), "faults is 5, not text"),
        (lambda store: ps.check_sheet(ps.read_sheet(ONE), tab="A"), "tab cannot apply to a Sheet"),
        (lambda store: store.apply(store.plan(ONE), recheck=np.array(["each"])), "recheck is arr"),
        (lambda store: store.edit(1001, photo_urls=[5]), "photo_urls has the item 5"),
        (lambda store: store.edit(1001, tags=["calm", None]), "tags has the item None"),
        (lambda store: store.photo(5), "an int is not the URL of a photo"),
        (lambda store: store.pictures_of(1001, 5), "an int is not a path"),
        (lambda store: store.pictures_of(1001, ["a.png", None]), "a NoneType is not a path"),
        (lambda store: store.pictures(5), "an int is neither a folder nor a sheet"),
        (lambda store: store.pictures(_PATH, column=5), "column is 5, not the header"),
        (lambda store: store.pictures(".", pattern=5), "pattern is 5, not text"),
        (lambda store: store.plan(ONE, allow_empty="no"), "allow_empty is 'no'; it must be True"),
        (
            lambda store: store.apply(store.plan(ONE), verify="no"),
            "verify is 'no'; it must be True",
        ),
        (lambda store: ps.read_sheet(_PATH, mapping=["id"]), "it must be a mapping of texts"),
        (lambda store: ps.read_sheet(_PATH, mapping={"id": 5}), "it must be a mapping of texts"),
        (lambda store: ps.read_sheet(_PATH, corrections=["x"]), "it must be a mapping of texts"),
        (lambda store: ps.read_sheet(_PATH, encoding=5), "there is no text encoding 5"),
        (lambda store: ps.frame_from_pets(None), "a NoneType is not a list of pets"),
        (lambda store: ps.frame_from_pets(Pet()), "a Pet is not a list of pets"),
        (lambda store: ps.frame_from_pets([{"id": 1}]), "a list is not a list of pets"),
        (lambda store: ps.frame_from_pets(ONE), "a DataFrame is not a list of pets"),
        (lambda store: ps.write_sheet([1], "a.csv"), "a list is not a table"),
        (lambda store: ps.write_sheet(ONE, 5), "an int is not a path"),
        (lambda store: ps.check_sheet(None), "a NoneType is not a table"),
        (lambda store: store.plan(ONE["id"]), "a Series is not a table"),
        (lambda store: ps.rehearse(ONE, store), "a DataFrame is not a Store"),
        (lambda store: ps.widgets.login(None), "a NoneType is not a Store"),
        (lambda store: ps.widgets.browse(store.url), "a str is not a Store"),
        (lambda store: ps.widgets.app(store.aio), "an AsyncStore is not a Store"),
        (lambda store: ps.widgets.open_sheet(None), "a NoneType is not a Store"),
        (lambda store: ps.widgets.open_sheet(store, 5), "an int is not a path"),
        (lambda store: ps.widgets.upload_images(None), "a NoneType is not a Store"),
        (lambda store: ps.widgets.upload_images(store, "Rex"), "'Rex' is not a pet id"),
        (lambda store: ps.widgets.review(store.plan(ONE), None), "a NoneType is not a Store"),
        (lambda store: ps.widgets.review(store.plan(ONE), store, sheet=5), "an int is not a sheet"),
        (lambda store: ps.reconcile.run(None), "a NoneType is not a path"),
        (lambda store: ps.reconcile.run("petsync.toml", job=5), "job is 5, not the name of a job"),
        (lambda store: ps.reconcile.load(5, {}), "an int is not a path"),
        (lambda store: ps.reconcile.load("a\0", {}), "cannot be read"),
        (lambda store: ps.reconcile.History(5), "an int is not a path"),
        (lambda store: ps.reconcile.History("a\0").rounds(), "cannot be read"),
        (lambda store: ps.connect(5), "the address is 5, not text"),
        (lambda store: ps.connect(store.url, retry=5), "retry is 5; it must be RetryPolicy"),
        (lambda store: ps.connect(store.url, profile=5), "profile is 5; it must be str or Serv"),
    ],
)
def test_a_wrong_argument_is_named(
    call: Callable[[Any], object], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of another type is an error of petsync that names it, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    _PATH.write_text("id,name\n1,Max\n", "utf-8")
    with (
        ps.demo(state=tmp_path / "state") as store,
        pytest.raises(ps.errors.PetsyncError, match=re.escape(says)) as caught,
    ):
        call(store)
    assert "schema" not in str(caught.value)
    assert "dictionary" not in str(caught.value)
    assert {each.name for each in tmp_path.iterdir() if each.is_file()} == {"pets.csv"}


def test_one_status_is_not_its_letters(tmp_path: Path) -> None:
    """A text as `statuses` or `known_statuses` is one status."""
    (tmp_path / "pets.csv").write_text("id,name,status\n1,Max,adopted\n", "utf-8")
    for name in ("statuses", "known_statuses"):
        options: dict[str, Any] = {name: "adopted"}
        assert ps.read_sheet(tmp_path / "pets.csv", **options).problems == ()
