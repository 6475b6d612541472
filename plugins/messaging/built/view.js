// \0rolldown/runtime.js
var e = (e, t) => () => (t || (e((t = { exports: {} }).exports, t, t.exports), e = null), t.exports), t = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")].react;
})), n = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react-dom/client"];
})), r = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react/jsx-runtime"];
})), i = t(), a = n(), o = r(), s = (e, t) => {
	let n = (0, a.createRoot)(e);
	return n.render(/* @__PURE__ */ (0, o.jsx)(l, { host: t })), () => n.unmount();
}, c = 3e3;
function l({ host: e }) {
	let [t, n] = (0, i.useState)(), [r, a] = (0, i.useState)(), [s, l] = (0, i.useState)([]), [d, f] = (0, i.useState)(), [p, m] = (0, i.useState)(), [h, g] = (0, i.useState)(""), _ = (e) => g(e.message), v = async () => {
		n(await e.ask("/messaging"));
		let t = await e.ask("/messaging/identity");
		return a(t.accounts), l((await e.ask("/messaging/rooms")).rooms), g(""), await e.ask("/messaging/status").then(m, () => {}), t.accounts;
	};
	(0, i.useEffect)(() => void v().catch(_), []), (0, i.useEffect)(() => {
		if (!d || !r) return;
		let t = r.length, n = async () => {
			if (Date.now() > Date.parse(d.expiresAt)) return f(void 0);
			(await v()).length > t && (f(void 0), e.announce("The account is linked."));
		}, i = setInterval(() => void n().catch(_), c);
		return () => clearInterval(i);
	}, [d]);
	let y = async (t) => {
		await e.ask(`/messaging/identity/${encodeURIComponent(t)}`, { method: "DELETE" }), e.announce(`${t} is no longer linked.`), await v();
	}, b = async () => f(await e.ask("/messaging/links", { method: "POST" }));
	return /* @__PURE__ */ (0, o.jsxs)(o.Fragment, { children: [
		/* @__PURE__ */ (0, o.jsx)("p", {
			className: "lead",
			children: "Write to this oracle in your messenger, as the person you are here."
		}),
		h && /* @__PURE__ */ (0, o.jsx)("p", {
			role: "alert",
			children: h
		}),
		/* @__PURE__ */ (0, o.jsxs)("section", {
			className: "card",
			"aria-labelledby": "linked",
			children: [
				/* @__PURE__ */ (0, o.jsx)("h2", {
					id: "linked",
					children: "Your accounts"
				}),
				r?.length === 0 && /* @__PURE__ */ (0, o.jsx)("p", { children: "No account is linked yet." }),
				/* @__PURE__ */ (0, o.jsx)("ul", {
					"aria-label": "Linked accounts",
					children: r?.map(({ userId: e }) => /* @__PURE__ */ (0, o.jsxs)("li", { children: [
						/* @__PURE__ */ (0, o.jsx)("code", { children: e }),
						" ",
						/* @__PURE__ */ (0, o.jsx)("button", {
							type: "button",
							className: "quiet",
							onClick: () => void y(e).catch(_),
							children: "Unlink"
						})
					] }, e))
				}),
				s.length > 0 && /* @__PURE__ */ (0, o.jsx)("p", { children: s.length === 1 ? "The oracle talks with you in one room." : `The oracle talks with you in ${s.length} rooms.` })
			]
		}),
		t && /* @__PURE__ */ (0, o.jsxs)("section", {
			className: "card",
			"aria-labelledby": "link",
			children: [
				/* @__PURE__ */ (0, o.jsx)("h2", {
					id: "link",
					children: "Link an account"
				}),
				/* @__PURE__ */ (0, o.jsxs)("p", { children: [
					"Begin a direct conversation with ",
					/* @__PURE__ */ (0, o.jsx)("code", { children: t.userId }),
					", then write it the line that you get here. Give it to nobody else."
				] }),
				/* @__PURE__ */ (0, o.jsx)("button", {
					type: "button",
					onClick: () => void b().catch(_),
					children: "Get a code"
				}),
				d && /* @__PURE__ */ (0, o.jsxs)("p", {
					role: "status",
					children: [
						/* @__PURE__ */ (0, o.jsxs)("code", { children: ["!link ", d.code] }),
						", until ",
						new Date(d.expiresAt).toLocaleTimeString()
					]
				})
			]
		}),
		p && /* @__PURE__ */ (0, o.jsx)(u, { status: p })
	] });
}
function u({ status: e }) {
	let { state: t, cause: n, holder: r, rooms: i = 0, queue: a = 0, undecryptable: s = 0 } = e;
	return /* @__PURE__ */ (0, o.jsxs)("section", {
		className: "card",
		"aria-labelledby": "standing",
		children: [
			/* @__PURE__ */ (0, o.jsx)("h2", {
				id: "standing",
				children: "The oracle’s account"
			}),
			/* @__PURE__ */ (0, o.jsxs)("p", { children: [
				t,
				n !== void 0 && `: ${n}`,
				r !== void 0 && `, held by ${r}`
			] }),
			/* @__PURE__ */ (0, o.jsxs)("p", { children: [
				"Rooms: ",
				i,
				". Messages that wait: ",
				a,
				". Messages that could not be read:",
				" ",
				s,
				"."
			] })
		]
	});
}
export { s as default };
