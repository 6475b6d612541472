const quotation = /^\[quoted (\w+): [^\n]*\]\n([\s\S]*)\n\[end \1\]$/

/** The words between the two marks of a quotation, in the form that a model is sent; any other text as it is. */
export const unquote = (text: string): string => quotation.exec(text)?.[2] ?? text
