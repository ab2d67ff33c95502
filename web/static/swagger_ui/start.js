// A file of its own, because the page's content security policy allows no inline script.
SwaggerUIBundle({ url: "../schema/", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
