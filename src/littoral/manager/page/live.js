// HTML from the server, changed in place: what has the focus keeps it, what is open stays open, what is typed stays.
// Buttons and forms with data-act send an act and their fields; data-ask asks first.

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function dress(old, fresh) {
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
}

function morph(old, fresh) {
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    if (child.id && !(place && same(place, child))) {
      const moved = [...old.children].find((one) => same(one, child));
      if (moved) old.insertBefore(moved, place), (place = moved);
    }
    if (!place) old.appendChild(child);
    else if (!same(place, child)) old.insertBefore(child, place);
    else {
      change(place, child);
      place = place.nextSibling;
    }
  }
  while (place) [place] = [place.nextSibling, place.remove()];
}

function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
  } else if (!old.isEqualNode(fresh)) {
    dress(old, fresh);
    if (old.nodeName === "TEXTAREA") {
      if (fresh.hasAttribute("data-set")) old.value = fresh.textContent;
    } else morph(old, fresh);
  }
}

function fields(element) {
  const found = { ...element.dataset };
  if (element.form || element.nodeName === "FORM")
    for (const [name, value] of new FormData(element.form || element)) if (typeof value === "string") found[name] = value;
  return found;
}

export default {
  template: '<div class="lit"></div>',
  props: { content: String },
  watch: {
    content(html) {
      const fresh = document.createElement("div");
      fresh.innerHTML = html;
      const before = this.told();
      morph(this.$el, fresh);
      this.after(before);
    },
  },
  mounted() {
    this.$el.innerHTML = this.content;
    this.$el.closest("main.q-page")?.setAttribute("role", "presentation"); // the content has a main of its own
    this.$el.addEventListener("click", (event) => this.clicked(event));
    this.$el.addEventListener("submit", (event) => event.target.dataset.act && this.submitted(event));
    this.$el.addEventListener("change", (event) => this.changed(event));
    this.after({});
  },
  methods: {
    told() {
      return Object.fromEntries(["said", "wrong"].map((id) => [id, this.$el.querySelector("#" + id)?.textContent]));
    },
    async send(element) {
      const { ask } = element.dataset;
      if (ask && !(await this.confirmed(ask, element.textContent))) return;
      this.$emit("act", { act: element.dataset.act, fields: fields(element) });
    },
    clicked(event) {
      const button = event.target.closest("button[data-act]");
      if (button) this.send(button);
    },
    submitted(event) {
      event.preventDefault();
      if (event.submitter?.dataset.act) return;
      this.send(event.target);
    },
    async changed(event) {
      const { dataset, files, value } = event.target;
      if (dataset.theme !== undefined) {
        localStorage.setItem("littoral-theme", value);
        document.documentElement.dataset.theme = value;
      } else if (dataset.into && files?.[0]) {
        document.getElementById(dataset.into).value = await files[0].text();
      } else if (dataset.go) location.href = dataset.go + encodeURIComponent(value);
    },
    confirmed(question, yes) {
      const dialog = document.createElement("dialog");
      dialog.className = "lit ask";
      dialog.setAttribute("aria-labelledby", "asked");
      dialog.innerHTML =
        '<form method="dialog"><p id="asked"></p><div class="actions">' +
        '<button value="no" autofocus>Cancel</button><button value="yes" class="main"></button></div></form>';
      dialog.querySelector("p").textContent = question;
      dialog.querySelector("[value=yes]").textContent = yes;
      document.body.append(dialog);
      dialog.showModal();
      return new Promise((answer) =>
        dialog.addEventListener("close", () => (dialog.remove(), answer(dialog.returnValue === "yes")))
      );
    },
    after(before) {
      const theme = this.$el.querySelector("[data-theme]");
      if (theme) theme.value = document.documentElement.dataset.theme;
      const { said, wrong } = this.told();
      if (said && said !== before.said) this.$el.querySelector("#said").scrollIntoView({ block: "nearest" });
      if (wrong && wrong !== before.wrong) this.point();
    },
    point() {
      const text = this.$el.querySelector("[data-line]");
      if (!text) return this.$el.querySelector("#wrong").focus();
      const lines = text.value.split("\n");
      const line = Math.min(Number(text.dataset.line), lines.length);
      const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
      text.focus();
      text.setSelectionRange(start, start + lines[line - 1].length);
      text.scrollTop = (line - 4) * parseFloat(getComputedStyle(text).lineHeight);
    },
  },
};
