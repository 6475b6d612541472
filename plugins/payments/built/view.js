// \0rolldown/runtime.js
var e = (e, t) => () => (t || (e((t = { exports: {} }).exports, t, t.exports), e = null), t.exports), t = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")].react;
})), n = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react-dom/client"];
})), r = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client"];
})), i = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client/payments"];
})), a = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react/jsx-runtime"];
})), o = t(), s = n(), c = r(), l = i(), u = a(), d = (e, t) => {
	let n = (0, s.createRoot)(e);
	return n.render(/* @__PURE__ */ (0, u.jsx)(c.OracleClientProvider, {
		client: t.client,
		children: /* @__PURE__ */ (0, u.jsx)(f, { host: t })
	})), () => n.unmount();
};
function f({ host: e }) {
	let t = (0, l.usePayments)(e.oracleDid), { terms: n, account: r, error: i, isLoading: a, refetch: s } = t;
	if ((0, o.useEffect)(() => void s().catch(() => {}), []), !n || !r) return a ? /* @__PURE__ */ (0, u.jsx)("p", {
		role: "status",
		children: e.words.asking
	}) : /* @__PURE__ */ (0, u.jsx)("p", {
		role: "alert",
		children: i?.message
	});
	let c = {
		...t,
		terms: n
	};
	return /* @__PURE__ */ (0, u.jsxs)(u.Fragment, { children: [
		/* @__PURE__ */ (0, u.jsx)("p", {
			className: "lead",
			children: p(n)
		}),
		/* @__PURE__ */ (0, u.jsxs)("section", {
			className: "card",
			"aria-labelledby": "account",
			children: [
				/* @__PURE__ */ (0, u.jsx)("h2", {
					id: "account",
					children: "Account"
				}),
				/* @__PURE__ */ (0, u.jsxs)("dl", {
					className: "figures",
					children: [
						/* @__PURE__ */ (0, u.jsx)(m, {
							name: "Paid in advance",
							amount: r.balance,
							terms: n
						}),
						/* @__PURE__ */ (0, u.jsx)(m, {
							name: "Owed",
							amount: r.owed,
							terms: n
						}),
						/* @__PURE__ */ (0, u.jsx)(m, {
							name: "Set aside for turns under way",
							amount: r.held,
							terms: n
						}),
						/* @__PURE__ */ (0, u.jsx)(m, {
							name: "Available",
							amount: r.available,
							terms: n
						})
					]
				}),
				n.free > 0 && /* @__PURE__ */ (0, u.jsxs)("p", { children: [r.free.left, " free turns are left today."] }),
				/* @__PURE__ */ (0, u.jsx)("div", {
					className: "row",
					children: /* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "quiet",
						onClick: () => void s().catch(() => {}),
						children: e.words.readAgain
					})
				})
			]
		}),
		i && /* @__PURE__ */ (0, u.jsx)("p", {
			role: "alert",
			children: i.message
		}),
		/* @__PURE__ */ (0, u.jsx)(h, {
			payments: c,
			host: e
		}),
		/* @__PURE__ */ (0, u.jsx)(_, {
			payments: c,
			host: e
		}),
		/* @__PURE__ */ (0, u.jsx)(y, { payments: c })
	] });
}
function p(e) {
	let { turn: t, input: n, output: r, tokens: i, tools: a } = e.prices, o = [
		t !== "0" && `${(0, l.inCoins)(t, e)} a turn`,
		n !== "0" && `${(0, l.inCoins)(n, e)} for 1,000 tokens read`,
		r !== "0" && `${(0, l.inCoins)(r, e)} for 1,000 tokens written`,
		i.length > 0 && "tokens by model",
		...a.map(({ name: t, price: n }) => `${(0, l.inCoins)(n, e)} for ${t}`)
	].filter((e) => e !== !1);
	if (o.length === 0) return "Turns are free here.";
	let s = o.join(", ");
	return o.length === 1 && t === e.maximum ? `${s}.` : `${s}; at most ${(0, l.inCoins)(e.maximum, e)} a turn.`;
}
function m(e) {
	return /* @__PURE__ */ (0, u.jsxs)("div", { children: [/* @__PURE__ */ (0, u.jsx)("dt", { children: e.name }), /* @__PURE__ */ (0, u.jsx)("dd", { children: (0, l.inCoins)(e.amount, e.terms) })] });
}
function h({ payments: e, host: t }) {
	let { claims: n, terms: r, isPaying: i, pay: a } = e, o = n.filter(({ status: e }) => e === "open"), s = async () => {
		let { paid: e } = await a();
		t.announce(`${e.length} claims are paid.`);
	};
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "claims",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "claims",
				children: "Claims"
			}),
			n.length === 0 && /* @__PURE__ */ (0, u.jsx)("p", { children: "Nothing was asked for yet." }),
			/* @__PURE__ */ (0, u.jsx)("ul", { children: n.map((t) => /* @__PURE__ */ (0, u.jsxs)("li", { children: [
				t.kind === "advance" ? "In advance" : "Turns",
				":",
				" ",
				/* @__PURE__ */ (0, u.jsx)("strong", { children: (0, l.inCoins)(t.amount, r) }),
				", ",
				t.status,
				t.status === "open" && /* @__PURE__ */ (0, u.jsx)(g, {
					claim: t,
					payments: e
				})
			] }, t.id)) }),
			o.length > 0 && /* @__PURE__ */ (0, u.jsx)("div", {
				className: "row",
				children: /* @__PURE__ */ (0, u.jsx)("button", {
					type: "button",
					disabled: i,
					onClick: () => void s().catch(() => {}),
					children: i ? "Paying…" : "Pay what is open"
				})
			})
		]
	});
}
function g({ claim: e, payments: t }) {
	let [n, r] = (0, o.useState)("");
	return /* @__PURE__ */ (0, u.jsxs)("details", { children: [/* @__PURE__ */ (0, u.jsx)("summary", { children: "Something is wrong with it" }), /* @__PURE__ */ (0, u.jsxs)("form", {
		className: "row",
		onSubmit: (r) => {
			r.preventDefault(), t.dispute(e.id, n).catch(() => {});
		},
		children: [/* @__PURE__ */ (0, u.jsxs)("label", {
			className: "field",
			children: ["What is wrong", /* @__PURE__ */ (0, u.jsx)("input", {
				required: !0,
				maxLength: 500,
				value: n,
				onChange: (e) => r(e.target.value)
			})]
		}), /* @__PURE__ */ (0, u.jsx)("button", {
			disabled: t.isPaying,
			children: "Dispute"
		})]
	})] });
}
function _({ payments: e, host: t }) {
	let { terms: n, isPaying: r, advance: i } = e, [a, s] = (0, o.useState)(() => String(t.keep.get("amount") ?? "")), c = v(a, n.decimals);
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "advance",
		children: [/* @__PURE__ */ (0, u.jsx)("h2", {
			id: "advance",
			children: "Pay in advance"
		}), /* @__PURE__ */ (0, u.jsxs)("form", {
			className: "row",
			onSubmit: (e) => {
				e.preventDefault(), c !== void 0 && i(c).then(({ balance: e }) => t.announce(`The balance is ${(0, l.inCoins)(e, n)}.`), () => {});
			},
			children: [/* @__PURE__ */ (0, u.jsxs)("label", {
				className: "field",
				children: [
					"Amount in ",
					n.symbol,
					/* @__PURE__ */ (0, u.jsx)("input", {
						inputMode: "decimal",
						value: a,
						onChange: ({ target: e }) => {
							t.keep.set("amount", e.value), s(e.value);
						}
					})
				]
			}), /* @__PURE__ */ (0, u.jsx)("button", {
				disabled: r || c === void 0,
				children: "Pay in advance"
			})]
		})]
	});
}
function v(e, t) {
	let [, n = "", r = ""] = /^(\d{1,16})(?:\.(\d+))?$/.exec(e.trim()) ?? [];
	if (n === "" || r.length > t) return;
	let i = BigInt(n + r.padEnd(t, "0"));
	return i > 0n ? String(i) : void 0;
}
function y({ payments: { charges: e, terms: t } }) {
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "turns",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "turns",
				children: "Turns"
			}),
			e.length === 0 && /* @__PURE__ */ (0, u.jsx)("p", { children: "No turn has cost anything yet." }),
			e.length > 0 && /* @__PURE__ */ (0, u.jsxs)("table", { children: [/* @__PURE__ */ (0, u.jsx)("thead", { children: /* @__PURE__ */ (0, u.jsxs)("tr", { children: [
				/* @__PURE__ */ (0, u.jsx)("th", {
					scope: "col",
					children: "Ended"
				}),
				/* @__PURE__ */ (0, u.jsx)("th", {
					scope: "col",
					children: "Cost"
				}),
				/* @__PURE__ */ (0, u.jsx)("th", {
					scope: "col",
					children: "State"
				})
			] }) }), /* @__PURE__ */ (0, u.jsx)("tbody", { children: e.slice(0, 50).map((e) => /* @__PURE__ */ (0, u.jsxs)("tr", { children: [
				/* @__PURE__ */ (0, u.jsx)("th", {
					scope: "row",
					children: e.endedAt ? new Date(e.endedAt).toLocaleString() : "under way"
				}),
				/* @__PURE__ */ (0, u.jsx)("td", { children: (0, l.inCoins)(e.amount, t) }),
				/* @__PURE__ */ (0, u.jsx)("td", { children: e.status })
			] }, e.runId)) })] })
		]
	});
}
export { d as default };
