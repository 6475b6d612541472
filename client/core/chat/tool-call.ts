/** The output of a call as the tool gave it, where the output is JSON; else its text. */
export function readOutput(output: string | undefined): unknown {
  try {
    return output && JSON.parse(output)
  } catch {
    return output
  }
}
