// A file of its own, because the page's content security policy allows no inline script.
SwaggerUIBundle({
  url: "../schema/",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  defaultModelRendering: "model", // the schema before the example: it has the descriptions
  defaultModelExpandDepth: 2, // the fields of a schema with their descriptions
});
