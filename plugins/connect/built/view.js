// \0rolldown/runtime.js
var e = (e, t) => () => (t || (e((t = { exports: {} }).exports, t, t.exports), e = null), t.exports), t = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")].react;
})), n = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react-dom/client"];
})), r = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react/jsx-runtime"];
})), i = t(), a = n(), o = r(), s = (e, t) => {
	let n = (0, a.createRoot)(e);
	return n.render(/* @__PURE__ */ (0, o.jsx)(u, { host: t })), () => n.unmount();
}, c = "ok_…", l = ["oracle/call", "tools/call"];
function u({ host: e }) {
	let t = e.keep.get("connect-key"), [n, r] = (0, i.useState)(), [a, s] = (0, i.useState)([]), [c, u] = (0, i.useState)(t), [p, m] = (0, i.useState)(""), h = (e) => m(e.message), g = async () => s((await e.ask("/keys")).keys), _ = async () => {
		r((await e.ask("/connect")).doors), await g();
	};
	(0, i.useEffect)(() => void _().catch(h), []);
	let v = (t) => {
		m(""), u(t), e.keep.set("connect-key", t);
	}, y = async (t) => {
		v(await e.ask("/keys", { body: {
			name: t,
			can: l
		} })), e.announce("The key stands in the lines below. It is shown here alone."), await g();
	}, b = async ({ id: t, name: n }) => {
		await e.ask(`/keys/${encodeURIComponent(t)}`, { method: "DELETE" }), c?.id === t && v(void 0), e.announce(`The key “${n}” is ended.`), await g();
	};
	return /* @__PURE__ */ (0, o.jsxs)(o.Fragment, { children: [
		/* @__PURE__ */ (0, o.jsx)("p", {
			className: "lead",
			children: "Use this oracle from your editor, your chat program or your own code."
		}),
		p && /* @__PURE__ */ (0, o.jsx)("p", {
			role: "alert",
			children: p
		}),
		/* @__PURE__ */ (0, o.jsx)(d, {
			keys: a,
			make: (e) => y(e).catch(h),
			end: (e) => b(e).catch(h)
		}),
		c?.key && /* @__PURE__ */ (0, o.jsxs)("p", {
			role: "status",
			children: [
				"The key ",
				/* @__PURE__ */ (0, o.jsx)("code", { children: c.key }),
				" is in the lines below. It is shown once: a reload of the page takes it away."
			]
		}),
		n?.length === 0 && /* @__PURE__ */ (0, o.jsx)("p", { children: "This server has no door for clients of other protocols." }),
		n?.map((t) => /* @__PURE__ */ (0, o.jsx)(f, {
			door: t,
			secret: c?.key,
			host: e
		}, t.name))
	] });
}
function d(e) {
	let [t, n] = (0, i.useState)("");
	return /* @__PURE__ */ (0, o.jsxs)("section", {
		className: "card",
		"aria-labelledby": "keys",
		children: [
			/* @__PURE__ */ (0, o.jsx)("h2", {
				id: "keys",
				children: "Your keys"
			}),
			/* @__PURE__ */ (0, o.jsx)("p", { children: "Whoever has a key talks to the oracle as you and calls its tools, until the key ends. What asks you first stays with you." }),
			/* @__PURE__ */ (0, o.jsx)("ul", {
				"aria-label": "Keys",
				children: e.keys.map((t) => /* @__PURE__ */ (0, o.jsxs)("li", { children: [
					t.name,
					" ",
					/* @__PURE__ */ (0, o.jsxs)("small", { children: ["until ", new Date(t.expiresAt).toLocaleDateString()] }),
					" ",
					/* @__PURE__ */ (0, o.jsx)("button", {
						type: "button",
						className: "quiet",
						onClick: () => void e.end(t),
						children: "End"
					})
				] }, t.id))
			}),
			/* @__PURE__ */ (0, o.jsxs)("form", {
				className: "row",
				onSubmit: (r) => {
					r.preventDefault(), e.make(t.trim()).then(() => n(""));
				},
				children: [/* @__PURE__ */ (0, o.jsxs)("label", {
					className: "grow",
					children: ["What the key is for", /* @__PURE__ */ (0, o.jsx)("input", {
						value: t,
						maxLength: 80,
						onChange: ({ target: e }) => n(e.value)
					})]
				}), /* @__PURE__ */ (0, o.jsx)("button", {
					disabled: !t.trim(),
					children: "Make a key"
				})]
			})
		]
	});
}
function f({ door: e, secret: t, host: n }) {
	let r = t ? e.lines.replaceAll(c, t) : e.lines, i = `door-${e.name}`, a = () => navigator.clipboard.writeText(r).then(() => n.announce("Copied."), () => n.announce("The browser does not let the page copy. Select the lines."));
	return /* @__PURE__ */ (0, o.jsxs)("section", {
		className: "card",
		"aria-labelledby": i,
		children: [
			/* @__PURE__ */ (0, o.jsx)("h2", {
				id: i,
				children: e.title
			}),
			/* @__PURE__ */ (0, o.jsx)("pre", { children: r }),
			/* @__PURE__ */ (0, o.jsx)("button", {
				type: "button",
				className: "quiet",
				onClick: () => void a(),
				children: "Copy"
			})
		]
	});
}
export { s as default };
